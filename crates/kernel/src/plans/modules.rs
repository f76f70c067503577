//! Modules of plans: which bytes a plan locks, and the cache that has them.
//!
//! The lock is in the plan itself: its `moduleManifest` has an entry with a digest for every module of the
//! graph. The cache is only a cache: what it holds is found by the digest of a plan and compared with it
//! whenever it is read, so whoever can write there can take modules away, and changes none.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use glasshouse_plan::Plan;
use glasshouse_plan::json::Json;
use glasshouse_script::{Error, Found, Integrity, Kind, Library, Result, codes};
use rustix::fs::{Mode, OFlags};

/// Most bytes of one module.
pub(crate) const MAX_MODULE_BYTES: usize = glasshouse_script::compile::MAX_SOURCE_BYTES;
/// Most bytes of the cache; what was used longest ago goes first.
const MAX_CACHE_BYTES: u64 = 512 << 20;
/// How long writing one module may take.
const UNFINISHED: Duration = Duration::from_secs(3_600);

/// Bytes of modules by their digests.
#[derive(Debug, Clone)]
pub(crate) struct ModuleCache(PathBuf);

impl ModuleCache {
    /// The cache of an installation.
    pub(crate) fn of(home: &Path) -> Self {
        Self(home.join("cache/modules"))
    }

    /// The bytes with a digest; nothing when there are none, or others under its name.
    pub(crate) fn read(&self, integrity: &Integrity) -> Option<Vec<u8>> {
        let path = self.0.join(integrity.file_name());
        // Whoever can write there may put a pipe or a link in its place, and must not hold who reads.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = fs::File::from(rustix::fs::open(&path, flags, Mode::empty()).ok()?);
        let found = file.metadata().ok()?;
        if !found.is_file() || found.len() > MAX_MODULE_BYTES as u64 {
            return None;
        }
        let mut bytes = Vec::new();
        (&file).take(MAX_MODULE_BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
        if !integrity.holds(&bytes) {
            return None;
        }
        // That it was used is a help for sweeping only.
        let _ = file.set_modified(SystemTime::now());
        Some(bytes)
    }

    /// Keeps bytes under their digest.
    pub(crate) fn keep(&self, integrity: &Integrity, bytes: &[u8]) -> std::io::Result<()> {
        fs::create_dir_all(&self.0)?;
        self.make_room(bytes.len() as u64);
        let name = integrity.file_name();
        let unfinished = self.0.join(format!(".{name}.{}", std::process::id()));
        let _ = fs::remove_file(&unfinished);
        let written = fs::File::create_new(&unfinished)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| fs::rename(&unfinished, self.0.join(name)));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    /// Removes what was used longest ago until so much more fits.
    fn make_room(&self, more: u64) {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|entry| {
                let about = entry.metadata().ok()?;
                Some((about.modified().ok()?, about.len(), entry.path()))
            })
            .collect();
        let mut bytes: u64 = files.iter().map(|(_, len, _)| len).sum::<u64>() + more;
        files.sort();
        // What a process that was killed left behind.
        let old = SystemTime::now().checked_sub(UNFINISHED);
        for (at, _, path) in &files {
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            if name.starts_with(b".") && old.is_some_and(|old| *at < old) {
                let _ = fs::remove_file(path);
            }
        }
        for (_, len, path) in files {
            if bytes <= MAX_CACHE_BYTES {
                break;
            }
            if fs::remove_file(path).is_ok() {
                bytes -= len;
            }
        }
    }
}

/// What a plan says about one module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Locked {
    pub(crate) integrity: Option<Integrity>,
    pub(crate) kind: Option<Kind>,
}

/// What the manifest of a plan says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lock {
    /// Places by names, as imports find them.
    pub(crate) places: BTreeMap<String, String>,
    /// Digests by places.
    locked: BTreeMap<String, Locked>,
    /// Places for which two entries have different digests.
    torn: Vec<String>,
}

impl Lock {
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut lock = Self::default();
        for (name, entry) in plan.manifest().into_iter().flatten() {
            let text = |key: &str| entry.get(key).and_then(Json::as_text);
            let Some(place) = text("resolvedUrl") else { continue };
            lock.places.insert(name.to_owned(), place.to_owned());
            let integrity = text("integrity").and_then(Integrity::parse);
            let kind = text("type").and_then(Kind::parse);
            let known = lock
                .locked
                .entry(place.to_owned())
                .or_insert(Locked { integrity: None, kind: None });
            if known.integrity.is_some() && integrity.is_some() && known.integrity != integrity {
                lock.torn.push(place.to_owned());
            }
            known.integrity = known.integrity.take().or(integrity);
            known.kind = known.kind.or(kind);
        }
        lock
    }

    /// The digest of a place.
    ///
    /// # Errors
    /// `script_module_unlocked` when the plan has none, or two.
    pub(crate) fn integrity(&self, place: &str) -> Result<Option<&Integrity>> {
        if self.torn.iter().any(|torn| torn == place) {
            return Err(unlocked(
                place,
                "two entries of the manifest have different digests for it",
            ));
        }
        Ok(self.locked.get(place).and_then(|locked| locked.integrity.as_ref()))
    }

    /// What a module is: what the plan says, or else its address.
    pub(crate) fn kind(&self, place: &str) -> Option<Kind> {
        self.locked.get(place).and_then(|locked| locked.kind).or_else(|| Kind::of_address(place))
    }
}

pub(crate) fn unlocked(place: &str, why: &str) -> Error {
    Error::new(codes::MODULE_UNLOCKED, format!("the plan does not lock the module {place}"))
        .why(why.to_owned())
}

/// The modules that a plan locks, from the cache. No network is reached from here.
pub(crate) struct Pinned<'p> {
    pub(crate) lock: &'p Lock,
    pub(crate) cache: &'p ModuleCache,
}

impl Library for Pinned<'_> {
    fn get(&self, address: &str, attempt: usize) -> Result<Option<Found>> {
        if attempt > 0 {
            return Ok(None);
        }
        let kind = self.lock.kind(address).unwrap_or(Kind::Script);
        let address = address.to_owned();
        if kind == Kind::Asset {
            return Ok(Some(Found { address, kind, bytes: Arc::default() }));
        }
        let integrity = self.lock.integrity(&address)?;
        let integrity = integrity
            .ok_or_else(|| unlocked(&address, "the manifest has no entry with its digest"))?;
        let bytes = self.cache.read(integrity).ok_or_else(|| {
            Error::new(codes::MODULE_UNAVAILABLE, format!("the module {address} is not here"))
                .why(format!("the cache has no bytes with the digest {integrity}"))
                .fix("`glasshouse ui pin PLAN` fetches what is missing")
        })?;
        Ok(Some(Found { address, kind, bytes: Arc::new(bytes) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(manifest: serde_json::Value) -> Lock {
        let plan = serde_json::json!({"specVersion": "runtime-plan/v1", "id": "x", "version": 1,
            "root": {"type": "text", "value": ""}, "moduleManifest": manifest});
        Lock::of(&glasshouse_plan::parse(&plan.to_string(), &Default::default()).unwrap())
    }

    #[test]
    fn h2_other_bytes_under_a_digest_are_not_read() {
        let home = tempfile::tempdir().unwrap();
        let cache = ModuleCache::of(home.path());
        let integrity = Integrity::of(b"first");
        assert_eq!(cache.read(&integrity), None);
        cache.keep(&integrity, b"first").unwrap();
        assert_eq!(cache.read(&integrity).as_deref(), Some(&b"first"[..]), "the control");
        fs::write(cache.0.join(integrity.file_name()), b"other").unwrap();
        assert_eq!(cache.read(&integrity), None);
        cache.keep(&integrity, b"first").unwrap();
        assert!(cache.read(&integrity).is_some());
    }

    /// The failure: a pipe in the place of a module held the run for ever, and a link to `/dev/zero` filled the memory. What was opened was
    /// read by its name again, whatever it was. Now: only a regular file is read, and no more of it than a module may have.
    #[test]
    fn what_is_no_file_in_the_cache_holds_nobody() {
        let home = tempfile::tempdir().unwrap();
        let cache = ModuleCache::of(home.path());
        let integrity = Integrity::of(b"first");
        cache.keep(&integrity, b"first").unwrap();
        let path = cache.0.join(integrity.file_name());
        let elsewhere = home.path().join("elsewhere");
        fs::copy(&path, &elsewhere).unwrap();
        let put: [(&str, &dyn Fn()); 4] = [
            ("a pipe", &|| {
                let made = std::process::Command::new("mkfifo").arg(&path).status();
                assert!(made.unwrap().success());
            }),
            ("an endless device", &|| std::os::unix::fs::symlink("/dev/zero", &path).unwrap()),
            ("a link", &|| std::os::unix::fs::symlink(&elsewhere, &path).unwrap()),
            ("a folder", &|| fs::create_dir(&path).unwrap()),
        ];
        for (what, put) in put {
            fs::remove_file(&path).unwrap();
            put();
            let (told, answer) = std::sync::mpsc::channel();
            let (own, wanted) = (cache.clone(), integrity.clone());
            std::thread::spawn(move || told.send(own.read(&wanted)));
            let read = answer.recv_timeout(Duration::from_secs(9));
            assert_eq!(read.unwrap_or_else(|_| panic!("{what} holds")), None, "{what}");
            if path.is_dir() {
                fs::remove_dir(&path).unwrap();
            }
            cache.keep(&integrity, b"first").unwrap();
            assert!(cache.read(&integrity).is_some(), "{what}: the control");
        }
    }

    #[test]
    fn a_lock_has_one_digest_for_a_place() {
        let (a, b) = (Integrity::of(b"a").to_string(), Integrity::of(b"b").to_string());
        let at = "https://a.example/x.js";
        let entry =
            |integrity: &str| serde_json::json!({"resolvedUrl": at, "integrity": integrity});
        for (manifest, want) in [
            (serde_json::json!({"x": entry(&a)}), Ok(true)),
            (serde_json::json!({"x": entry(&a), "y": entry(&a)}), Ok(true)),
            (serde_json::json!({"x": {"resolvedUrl": at}}), Ok(false)),
            (serde_json::json!({"x": entry("sha256-short")}), Ok(false)),
            (serde_json::json!({}), Ok(false)),
            (serde_json::json!({"x": entry(&a), "y": entry(&b)}), Err("script_module_unlocked")),
        ] {
            let lock = lock(manifest.clone());
            let found = lock.integrity(at).map(|found| found.is_some());
            assert_eq!(found.map_err(|e| e.code()), want, "{manifest}");
        }
    }
}
