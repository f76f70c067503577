//! Single files: what a write would do to one, and writing and reading it.

use std::sync::Arc;

use glasshouse_model::{CanonicalPath, ChangeClass};
use glasshouse_sandbox::view::{Intent, ResolvedPath};
use glasshouse_tools::{Arguments, edit_text};

use super::Workbench;
use crate::classify::Contents;
use crate::{Error, Result, codes};

/// Largest file that an edit reads, in bytes.
const MAX_EDIT_BYTES: usize = 16 << 20;

/// What a write would do.
pub(in crate::driver) struct Written {
    pub(in crate::driver) size_bytes: u64,
    pub(in crate::driver) class: ChangeClass,
}

impl Workbench {
    /// What `fs.write` or `fs.edit` would do to the file at a resolved path.
    pub(in crate::driver) fn written(
        &self,
        target: &ResolvedPath,
        arguments: &Arguments,
    ) -> Result<Written> {
        let path = target.canonical();
        let old = content(target)?;
        let new = match arguments {
            Arguments::FsWrite { content, .. } => Some(content.clone().into_bytes()),
            // An edit that does not fit is told when it runs; what it is decided on is the file.
            Arguments::FsEdit { .. } => old
                .as_deref()
                .and_then(|old| std::str::from_utf8(old).ok())
                .and_then(|old| edit_text(old, arguments).ok())
                .map(String::into_bytes)
                .or_else(|| old.clone()),
            _ => None,
        };
        let class = self.class(path, &Contents { old: old.as_deref(), new: new.as_deref() })?;
        Ok(Written { size_bytes: new.map_or(0, |bytes| bytes.len() as u64), class })
    }

    /// What a path's change is, by content before and after.
    fn class(&self, path: &CanonicalPath, contents: &Contents<'_>) -> Result<ChangeClass> {
        // Nothing of the base is ignored, and a test is a test ignored or not; git is asked, by
        // starting it, only about the rest.
        let base = self.base()?;
        let may_be_ignored =
            base.manifest.get(path.as_str()).is_none() && !self.classifier.is_test_path(path);
        let ignored = may_be_ignored && base.ignored([path])?.contains(path);
        Ok(self.classifier.classify(path, ignored, contents))
    }

    /// Writes a file at a path that was decided on, making its directories.
    pub(in crate::driver) fn write(&mut self, path: &CanonicalPath, bytes: &[u8]) -> Result<()> {
        let live = self.live()?;
        let sandbox = Arc::clone(&live.sandbox);
        let resolved = live.view.resolve(path.as_str(), Intent::Create)?;
        // The decision was made on this very path; a link put there since would change it.
        if resolved.canonical() != path {
            return Err(Error::new(
                codes::CHANGE_DENIED,
                format!("`{path}` is no longer what was decided on"),
            )
            .why(format!("it now leads to `{}`", resolved.canonical())));
        }
        let place = resolved.place().ok_or_else(|| {
            Error::new(codes::CHANGE_DENIED, format!("`{path}` cannot be written"))
        })?;
        if let Some(parent) = place.missing_parents.first() {
            sandbox.make_dir(place.directory, parent, 0o755)?;
            // One level at a time, each resolved again: what was made is what the next is made in.
            return self.write(path, bytes);
        }
        let executable = resolved
            .descriptor()
            .is_some_and(|fd| rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_mode & 0o100 != 0));
        let mode = if executable { 0o755 } else { 0o644 };
        Ok(sandbox.write_file(place.directory, place.name, bytes, mode)?)
    }

    /// Reads a text file for an edit.
    pub(in crate::driver) fn read_text(&mut self, path: &CanonicalPath) -> Result<String> {
        let target = self.view()?.resolve(path.as_str(), Intent::Create)?;
        let bytes = content(&target)?.ok_or_else(|| {
            Error::new(codes::EDIT_FAILED, format!("`{path}` does not exist"))
                .fix("create it with fs.write")
        })?;
        String::from_utf8(bytes).map_err(|e| {
            Error::new(codes::EDIT_FAILED, format!("`{path}` is no UTF-8 text"))
                .why(format!("byte {} is not", e.utf8_error().valid_up_to()))
        })
    }
}

/// The bytes of the file that would be replaced, if there is one.
pub(in crate::driver) fn content(target: &ResolvedPath) -> Result<Option<Vec<u8>>> {
    if !target.exists() {
        return Ok(None);
    }
    let read = target.read(MAX_EDIT_BYTES)?;
    if read.is_cut() {
        let path = target.canonical();
        return Err(Error::new(
            codes::FILE_TOO_LARGE,
            format!("`{path}` is too large to be edited"),
        )
        .why(format!("it has {} bytes; the limit is {MAX_EDIT_BYTES}", read.total_bytes)));
    }
    Ok(Some(read.bytes))
}
