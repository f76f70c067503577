//! The programs of a sandbox: the host's own, or those of an unpacked image.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, readlinkat, statat, symlinkat};

use super::layer::{Layering, Trees};
use super::rootfs::{Base, PUBLIC_ETC, Root, place_of};
use crate::wire::{Context as _, Failure};

/// Directories of programs and libraries.
const PROGRAMS: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// What a sandbox makes itself and an image cannot bring.
const OWN: [&str; 12] = [
    "boot",
    "dev",
    "etc",
    "home",
    "media",
    "mnt",
    "proc",
    "root",
    "run",
    "sys",
    "tmp",
    "workspace",
];

/// Directories that an image and a sandbox have together.
const COMPLETED: [&str; 2] = ["etc", "var"];

/// A system that is not yet in a root.
pub(super) struct System {
    /// Name and target of each link in the root.
    links: Vec<(String, PathBuf)>,
    trees: Trees,
}

impl System {
    /// The host's `/usr`, its relatives, and the few files of `/etc` that are made for sandboxes.
    pub(super) fn of_host(base: &Base, layers: &mut Layering) -> Result<Self, Failure> {
        let mut system = Self { links: Vec::new(), trees: Vec::new() };
        system.add("/etc", layers.directories(&base.etc, &[&place_of(&base.etc)?])?);
        for name in PROGRAMS {
            let path = Path::new("/").join(name);
            match fs::read_link(&path) {
                Ok(target) => system.links.push((name.to_owned(), target)),
                Err(_) if path.is_dir() => system.add_directory(layers, &path)?,
                Err(_) => {}
            }
        }
        for path in PUBLIC_ETC.map(Path::new) {
            if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir()) {
                system.add_directory(layers, path)?;
            }
        }
        Ok(system)
    }

    /// Everything of an unpacked image but what a sandbox makes itself. Who the users are is the
    /// sandbox's to say.
    pub(super) fn of_image(
        base: &Base,
        layers: &mut Layering,
        image: &Path,
    ) -> Result<Self, Failure> {
        let mut system = Self { links: Vec::new(), trees: Vec::new() };
        let place = place_of(image)?;
        let step = || format!("mount the image {}", image.display());
        let list = openat(&place, ".", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
        for entry in Dir::new(list.step(step)?).step(step)? {
            let entry = entry.step(step)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_own = OWN.contains(&&*name) && !COMPLETED.contains(&&*name);
            if name == "." || name == ".." || is_own {
                continue;
            }
            let stat = statat(&place, &name, AtFlags::SYMLINK_NOFOLLOW).step(step)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Symlink if !COMPLETED.contains(&&*name) => {
                    let target = readlinkat(&place, &name, Vec::new()).step(step)?;
                    let target = target.to_string_lossy().into_owned();
                    system.links.push((name, target.into()));
                }
                FileType::Directory => {
                    let path = image.join(&name);
                    let theirs = place_of(&path)?;
                    let trees = if COMPLETED.contains(&&*name) {
                        let ours = place_of(&base.image.join(&name))?;
                        layers.directories(&path, &[&ours, &theirs])?
                    } else {
                        layers.directories(&path, &[&theirs])?
                    };
                    system.add(&format!("/{name}"), trees);
                }
                // A file in the root of an image is no program.
                _ => {}
            }
        }
        Ok(system)
    }

    fn add_directory(&mut self, layers: &mut Layering, path: &Path) -> Result<(), Failure> {
        let trees = layers.directories(path, &[&place_of(path)?])?;
        self.add(&path.to_string_lossy(), trees);
        Ok(())
    }

    fn add(&mut self, at: &str, trees: Trees) {
        let at = Path::new(at);
        self.trees.extend(trees.into_iter().map(|(below, tree)| (at.join(below), tree)));
    }

    /// Puts it into a root.
    pub(super) fn install(self, root: &Root) -> Result<(), Failure> {
        for (name, target) in self.links {
            symlinkat(&target, &root.root, &name).step(|| format!("link /{name}"))?;
        }
        self.trees.iter().try_for_each(|(path, tree)| root.attach_host(path, tree))
    }
}
