//! `session export`, `session import` and `session check-export`.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufReader, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use glasshouse_kernel::{Kernel, codes};
use glasshouse_log::{ExportBlobs, Exported, Imported, check_export};
use glasshouse_model::{BranchId, Digest, Exit, SessionId};

use crate::error::Error;
use crate::{fail, output};

/// Missing contents that are named to people.
const MAX_TOLD: usize = 10;

/// What of a session is written.
pub(super) struct Wanted {
    pub(super) with_blobs: bool,
    /// Its documents as files, and of which branch.
    pub(super) layout: bool,
    pub(super) branch: Option<String>,
}

/// `session export`.
pub(super) fn run(
    kernel: &Kernel,
    id: &SessionId,
    out: Option<&Path>,
    wanted: &Wanted,
    json: bool,
) -> Result<u8, Error> {
    match out.filter(|_| wanted.layout) {
        Some(out) => {
            let branch = kernel.branch(id, wanted.branch.as_deref())?.branch;
            lay_out(kernel, &branch, out, json)
        }
        None => write(kernel, id, wanted.with_blobs, out, json),
    }
}

/// Writes a session to a new file, or to stdout.
fn write(
    kernel: &Kernel,
    id: &SessionId,
    with_blobs: bool,
    out: Option<&Path>,
    json: bool,
) -> Result<u8, Error> {
    kernel.main_branch(id)?;
    let blobs = if with_blobs { ExportBlobs::All } else { ExportBlobs::None };
    let Some(path) = out else {
        let mut stdout = Leaving { out: std::io::stdout().lock(), is_gone: false };
        let exported = kernel.log().export_session(id, blobs, &mut stdout);
        if !stdout.is_gone {
            exported?;
        }
        return Ok(Exit::Done.status());
    };
    let failed = |cause: std::io::Error| fail::not_created(path, &cause);
    // What an agent did is for its owner's eyes until they say otherwise.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let file = file.map_err(|cause| fail::not_created(path, &cause))?;
    let mut file = BufWriter::new(file);
    let exported = kernel.log().export_session(id, blobs, &mut file);
    let stored = file.flush().and_then(|()| file.get_ref().sync_all());
    if exported.is_err() || stored.is_err() {
        // Half an export is none.
        let _ = std::fs::remove_file(path);
    }
    let exported = exported?;
    stored.map_err(failed)?;
    tell(&exported, json, "written");
    if exported.absent_blobs > 0 {
        output::note(&format!(
            "{} contents that its events name are not here: erased, or lost (`glasshouse audit verify` tells)",
            exported.absent_blobs
        ));
    }
    Ok(Exit::Done.status())
}

/// Writes a branch's documents into a new directory.
fn lay_out(kernel: &Kernel, branch: &BranchId, out: &Path, json: bool) -> Result<u8, Error> {
    let failed = |path: &Path, cause: std::io::Error| fail::not_created(path, &cause);
    let files = kernel.layout(branch)?;
    let owned = |path: &Path| DirBuilder::new().recursive(true).mode(0o700).create(path);
    // What an agent did is for its owner's eyes until they say otherwise.
    DirBuilder::new().mode(0o700).create(out).map_err(|cause| fail::not_created(out, &cause))?;
    let mut bytes = 0;
    for (path, content) in &files {
        let path = out.join(path);
        path.parent().map_or(Ok(()), owned).map_err(|e| failed(&path, e))?;
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(content)).map_err(|e| failed(&path, e))?;
        bytes += content.len();
    }
    if json {
        let told = serde_json::json!({ "branch": branch, "files": files.len(), "bytes": bytes });
        output::json_line(&told);
    } else {
        output::note(&format!("{} files written, {bytes} bytes", files.len()));
    }
    Ok(Exit::Done.status())
}

/// Stdout whose reader may have seen enough: that is no failure.
struct Leaving<W> {
    out: W,
    is_gone: bool,
}

impl<W: Write> Write for Leaving<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes);
        self.is_gone |= written.as_ref().is_err_and(|e| e.kind() == ErrorKind::BrokenPipe);
        written
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// Takes in an export.
pub(super) fn import(kernel: &Kernel, file: &Path, json: bool) -> Result<u8, Error> {
    let unreadable = |cause: &dyn std::fmt::Display| {
        Error::new(codes::INPUT_UNREADABLE, format!("cannot read {}", file.display())).why(cause)
    };
    let mut opened = File::open(file).map_err(|cause| unreadable(&cause))?;
    // It is read twice, and a device or a pipe does not give the same again.
    if !opened.metadata().is_ok_and(|meta| meta.is_file()) {
        return Err(unreadable(&"it is no regular file"));
    }
    let imported = kernel.import(&mut opened)?;
    if json {
        output::json_line(&imported);
        return Ok(Exit::Done.status());
    }
    output::data(imported.session.as_str());
    let Imported { session, exported, is_new, found_blobs, missing_blobs, .. } = &imported;
    output::note(&match (is_new, found_blobs) {
        (true, _) => format!(
            "imported {} events; read it with `glasshouse session show {session}`, fork it to work on it",
            exported.events
        ),
        (false, 0) => "every event in it is here already".to_owned(),
        (false, found) => format!("its events were here; {found} contents that were missing came"),
    });
    tell_missing(missing_blobs);
    Ok(Exit::Done.status())
}

/// Names the contents that are neither in the file nor here.
fn tell_missing(missing: &[Digest]) {
    if missing.is_empty() {
        return;
    }
    let count = missing.len();
    output::note(&format!(
        "{count} contents that its events name are missing; an export with its blobs brings them:"
    ));
    for digest in missing.iter().take(MAX_TOLD) {
        output::note(&format!("  {digest}"));
    }
    if count > MAX_TOLD {
        output::note(&format!("  and {} more; `--json` names all", count - MAX_TOLD));
    }
}

/// Proves an export.
pub(super) fn check(file: &Path, json: bool) -> Result<u8, Error> {
    let exported = if file == Path::new("-") {
        check_export(BufReader::new(std::io::stdin().lock()))?
    } else {
        let opened = File::open(file).map_err(|cause| {
            Error::new(codes::INPUT_UNREADABLE, format!("cannot read {}", file.display()))
                .why(cause)
        })?;
        check_export(BufReader::new(opened))?
    };
    tell(&exported, json, "sound");
    Ok(Exit::Done.status())
}

fn tell(exported: &Exported, json: bool, what: &str) {
    if json {
        output::json_line(exported);
    } else {
        output::data(&format!("{what}: {} events, {}", exported.events, exported.digest));
    }
}
