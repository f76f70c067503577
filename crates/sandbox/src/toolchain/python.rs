//! Which Python a repository's tests need: a virtual environment and the interpreter it was made of.

use std::path::{Path, PathBuf};

use super::{Finder, hint, is_plain_file, is_real_directory, names_in, text, version_file};

/// Directories in which nothing can be put at the path it has outside: what is there inside is the
/// sandbox's own, or a link.
const TAKEN: [&str; 4] = ["/proc", "/dev", "/etc", "/var/tmp"];

/// Where a repository keeps an environment of its own.
const OWN_ENVIRONMENTS: [&str; 2] = [".venv", "venv"];
/// The environment's settings; a directory without it is none.
const SETTINGS: &str = "pyvenv.cfg";

impl Finder<'_> {
    /// Adds every environment, as something of the repository may name one, but only that which runs
    /// the tests with its programs: before its interpreter, as `python3` is to be its own.
    pub(super) fn python(&mut self) {
        let environments = self.environments();
        let chosen = environments.iter().find(|path| holds_pytest(path)).or(environments.first());
        for environment in &environments {
            let in_use = Some(environment) == chosen;
            match environment.strip_prefix(self.repo) {
                Ok(below) => self.own_environment(&text(below), in_use),
                // Its scripts name their interpreter by its own path.
                Err(_) if in_use => {
                    let variables = [("VIRTUAL_ENV", text(environment))];
                    self.as_outside("python-environment", environment, &variables, &["bin"]);
                }
                Err(_) => {}
            }
        }
        let made_of = chosen.and_then(|environment| self.interpreter_of(environment));
        if let Some(source) = made_of.or_else(|| self.wanted_interpreter()) {
            // At its own path: virtual environments and scripts name their interpreter by it.
            self.as_outside("python", &source, &[], &["bin"]);
        }
    }

    /// Adds a mount at the path it has outside.
    fn as_outside(&mut self, name: &str, at: &Path, env: &[(&str, String)], path: &[&str]) {
        let inside = self.inside;
        let own = [&inside.workspace, &inside.cache, &inside.tools];
        let taken = TAKEN.iter().any(|dir| at.starts_with(dir))
            || own.into_iter().any(|dir| at.starts_with(dir));
        if !taken {
            self.add(name, at, at.to_owned(), env, path);
        }
    }

    /// The activated environment, then the repository's own.
    fn environments(&self) -> Vec<PathBuf> {
        let activated = self.homes.virtual_env.as_ref().and_then(|path| path.canonicalize().ok());
        let own = OWN_ENVIRONMENTS.iter().map(|name| self.repo.join(name));
        let own = own.filter(|path| Some(path) != activated.as_ref());
        let all = activated.iter().cloned().chain(own);
        all.filter(|path| is_real_directory(path) && is_plain_file(&path.join(SETTINGS))).collect()
    }

    /// In the workspace, where the repository expects it. One in use is also at its own path, by which
    /// its scripts name their interpreter.
    fn own_environment(&mut self, name: &str, in_use: bool) {
        let target = text(&self.inside.workspace.join(name));
        if !in_use {
            return self.of_repository("python-environment", name, &[], &[]);
        }
        let bin = format!("{name}/bin");
        self.of_repository("python-environment", name, &[("VIRTUAL_ENV", target)], &[&bin]);
        let own = self.found.last().filter(|mount| mount.name == "python-environment");
        if let Some(source) = own.map(|mount| mount.source.clone()) {
            self.as_outside("python-environment-scripts", &source, &[], &[]);
        }
    }

    /// The installed interpreter that an environment was made of. The environment's settings only
    /// choose among what is installed.
    fn interpreter_of(&self, environment: &Path) -> Option<PathBuf> {
        let settings = hint(&environment.join(SETTINGS))?;
        let home = settings.lines().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == "home").then(|| PathBuf::from(value.trim()))
        })?;
        // The link of an environment is spelled as its settings are, so that is where it goes.
        [self.homes.pyenv.join("versions"), self.homes.uv_python.clone()].iter().find_map(|dir| {
            let installed = names_in(dir).into_iter().map(|name| dir.join(name));
            installed.filter(|path| path.is_dir()).find(|path| path.join("bin") == home)
        })
    }

    /// What the repository, else the user, asks pyenv for.
    fn wanted_interpreter(&self) -> Option<PathBuf> {
        let versions = self.homes.pyenv.join("versions");
        let wanted = version_file(&self.repo.join(".python-version"))
            .or_else(|| version_file(&self.homes.pyenv.join("version")))?;
        let fits = |name: &&String| {
            **name == wanted || name.strip_prefix(&wanted).is_some_and(|rest| rest.starts_with('.'))
        };
        let installed = names_in(&versions);
        installed.iter().rev().find(fits).map(|name| versions.join(name))
    }
}

/// Whether `python3 -m pytest` would find it there.
fn holds_pytest(environment: &Path) -> bool {
    let libraries = environment.join("lib");
    let packages = |name: String| libraries.join(name).join("site-packages");
    names_in(&libraries).into_iter().any(|name| packages(name).join("pytest").is_dir())
}
