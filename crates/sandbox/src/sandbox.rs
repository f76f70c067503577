//! A live sandbox, as its owner holds it.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::attest::Attestation;
use crate::command::{Cancel, Command, RunResult, Stream, Usage};
use crate::disk::{DiskWatch, Place};
use crate::egress::{self, EgressProxy};
use crate::owner::{Half, explain, guard, lost};
use crate::spec::{HOME, SandboxSpec};
use crate::wire::{Ended, FromInit, Launch, Stop, ToInit};
use crate::{Error, Result, codes};

/// How much later than a command's own limit its end is taken for granted no more, and the whole
/// sandbox is killed from outside.
const GRACE: Duration = Duration::from_secs(1);

/// How long a file operation may take.
const FILE_LIMIT: Duration = Duration::from_secs(30);

/// What is read from a pipe at once: its default capacity.
const CHUNK_BYTES: usize = 64 << 10;

/// Most arguments and environment entries together; their bytes are bounded by the frame.
const MAX_TEXTS: usize = 4096;

/// Longest file name, as file systems have it.
const MAX_NAME_BYTES: usize = 255;

/// A confined place with a workspace in which commands run one at a time. Ends when dropped.
#[derive(Debug)]
pub struct Sandbox {
    /// The lock is what makes commands and file operations follow one another.
    half: Mutex<Half>,
    root: OwnedFd,
    attestation: Attestation,
    env: Vec<(String, String)>,
    max_duration_ms: u64,
    /// What commands may fill, and how far: the layer that takes the changes, and each cache.
    places: Vec<Place>,
    /// Ends with the sandbox, and after it.
    proxy: Option<EgressProxy>,
}

impl Sandbox {
    pub(crate) fn new(
        half: Half,
        root: OwnedFd,
        attestation: Attestation,
        spec: &SandboxSpec,
        proxy: Option<EgressProxy>,
    ) -> Self {
        let limit_bytes = spec.template.disk_bytes;
        let shown = rustix::fs::fstat(&root).map_or(0, |stat| stat.st_dev);
        let layer = spec.overlay.as_ref().map(|overlay| (overlay.upper.clone(), shown));
        let caches = spec.caches.iter().map(|cache| {
            let device = cache.source.metadata().map_or(0, |meta| meta.dev());
            (cache.source.clone(), device)
        });
        let places = layer.into_iter().chain(caches);
        let places = places.map(|(dir, device)| Place { dir, device, limit_bytes }).collect();
        Self {
            half: Mutex::new(half),
            root,
            attestation,
            env: spec.env.clone(),
            max_duration_ms: spec.template.max_duration_ms,
            places,
            proxy,
        }
    }

    /// The root of the workspace exactly as commands see it. Paths opened beneath it are the
    /// sandbox's, whoever opens them; follow no link out of it.
    #[must_use]
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// What is enforced, read back from inside.
    #[must_use]
    pub const fn attestation(&self) -> &Attestation {
        &self.attestation
    }

    /// Runs a command to its end and gives its output to `sink` piece by piece as it arrives.
    ///
    /// While `sink` is busy nothing is read, so the command waits when its pipe is full: memory
    /// stays bounded however much it writes. When the call returns no process of the command is
    /// left, background ones included, and no connection. The time limit is enforced inside and again here.
    ///
    /// # Errors
    /// `sandbox_command_invalid` when it cannot be started as asked; `sandbox_lost` when the
    /// sandbox ended under it. A program that is missing is a result (127), not an error.
    pub fn run(
        &self,
        command: &Command,
        sink: &mut dyn FnMut(Stream, &[u8]),
        cancel: &Cancel,
    ) -> Result<RunResult> {
        let launch = self.launch(command)?;
        let timeout = Duration::from_millis(launch.timeout_ms);
        let stdin = if command.stdin.is_empty() {
            File::open("/dev/null").map_err(|error| system("open /dev/null", &error))?.into()
        } else {
            sealed(&command.stdin)?
        };
        let pipe =
            || pipe_with(PipeFlags::CLOEXEC).map_err(|errno| system("make a pipe", &errno.into()));
        let ((out, out_end), (err, err_end)) = (pipe()?, pipe()?);
        let mut half = guard(&self.half);
        half.channel
            .send(&ToInit::Run(launch), &[stdin.as_fd(), out_end.as_fd(), err_end.as_fd()])
            .map_err(|error| {
                if error.is(glasshouse_ipc::codes::FRAME_TOO_LARGE) {
                    invalid("the command is too long", "arguments and environment exceed 160 KiB")
                } else {
                    lost(&error)
                }
            })?;
        drop((stdin, out_end, err_end));
        let disk = self.places.iter().map(DiskWatch::new).collect();
        let ran = Pump {
            half: &mut half,
            pipes: [Some(File::from(out)), Some(File::from(err))],
            bytes: [0, 0],
            limit_bytes: command.output_limit_bytes,
            deadline: Instant::now() + timeout + GRACE,
            stopped: false,
            full: false,
            disk,
            buffer: vec![0; CHUNK_BYTES],
        }
        .run(sink, cancel);
        // Nobody is left who could want a connection of this command; each is recorded by now.
        self.proxy.iter().for_each(EgressProxy::settle);
        ran
    }

    fn launch(&self, command: &Command) -> Result<Launch> {
        let base = [
            ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
            ("HOME", HOME),
            ("USER", "agent"),
            ("LANG", "C.UTF-8"),
        ];
        let mut env: Vec<(String, String)> = Vec::new();
        let base = base.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let proxy = self.proxy.iter().flat_map(|_| egress::environment());
        for (name, value) in base.chain(proxy).chain(self.env.clone()).chain(command.env.clone()) {
            if name.is_empty() || name.contains('=') {
                return Err(invalid(
                    &format!("`{}` is no environment name", name.escape_debug()),
                    "a name is not empty and has no `=`",
                ));
            }
            env.retain(|(known, _)| *known != name);
            env.push((name, value));
        }
        let env_texts = env.iter().flat_map(|(name, value)| [name, value]);
        if command.argv.iter().chain(env_texts).any(|text| text.contains('\0')) {
            return Err(invalid("the command has a NUL byte", "no program can receive one"));
        }
        if command.argv.first().is_none_or(String::is_empty) {
            return Err(invalid("the command is empty", "argv names no program"));
        }
        if command.argv.len() + env.len() > MAX_TEXTS {
            return Err(invalid("the command is too long", "more than 4096 arguments"));
        }
        let wanted = if command.timeout_ms == 0 { u64::MAX } else { command.timeout_ms };
        Ok(Launch {
            argv: command.argv.clone(),
            env,
            cwd: command.cwd.as_str().to_owned(),
            timeout_ms: wanted.min(self.max_duration_ms),
        })
    }

    /// Creates or replaces a file in the directory `parent`, which was opened beneath
    /// [`Sandbox::root`]. It is done inside, as the commands' user, into a new file that then
    /// takes the name: a link of that name is replaced, never followed. `mode` is permission bits.
    ///
    /// # Errors
    /// `sandbox_file_failed`, `sandbox_lost`.
    pub fn write_file(
        &self,
        parent: BorrowedFd<'_>,
        name: &str,
        bytes: &[u8],
        mode: u32,
    ) -> Result<()> {
        let content = sealed(bytes)?;
        let message = ToInit::Write { name: plain(name)?, mode };
        self.file(&message, &[parent, content.as_fd()], name)
    }

    /// Removes a file, or a link itself, from the directory `parent`.
    ///
    /// # Errors
    /// `sandbox_file_failed`, `sandbox_lost`.
    pub fn remove_file(&self, parent: BorrowedFd<'_>, name: &str) -> Result<()> {
        self.file(&ToInit::Remove { name: plain(name)? }, &[parent], name)
    }

    /// Makes a directory in the directory `parent`.
    ///
    /// # Errors
    /// `sandbox_file_failed`, `sandbox_lost`.
    pub fn make_dir(&self, parent: BorrowedFd<'_>, name: &str, mode: u32) -> Result<()> {
        self.file(&ToInit::MakeDir { name: plain(name)?, mode }, &[parent], name)
    }

    fn file(&self, message: &ToInit, descriptors: &[BorrowedFd<'_>], name: &str) -> Result<()> {
        let mut half = guard(&self.half);
        half.channel.send(message, descriptors).map_err(|error| lost(&error))?;
        match half.channel.receive_within(FILE_LIMIT).map_err(|error| lost(&error))?.message {
            FromInit::Done => Ok(()),
            FromInit::Failed(failure) => {
                let reason = std::io::Error::from_raw_os_error(failure.errno);
                Err(Error::new(codes::FILE_FAILED, format!("cannot {} `{name}`", failure.step))
                    .why(reason)
                    .with("errno", failure.errno))
            }
            _ => Err(Error::new(codes::SANDBOX_LOST, "the sandbox answered nonsense")),
        }
    }

    /// Kills everything inside, waits until it is gone and removes its cgroups; then ends the proxy,
    /// so that every connection is recorded. Dropping a sandbox does the same and hides the error.
    ///
    /// # Errors
    /// `sandbox_lost` when the host process is gone, which has ended the sandbox too.
    pub fn destroy(self) -> Result<()> {
        guard(&self.half).end()
    }
}

/// Moves a running command's output to the sink until it ends.
struct Pump<'a> {
    half: &'a mut Half,
    pipes: [Option<File>; 2],
    bytes: [u64; 2],
    limit_bytes: u64,
    deadline: Instant,
    /// Whether the end was asked for already.
    stopped: bool,
    /// Whether the output limit was reached; nothing is read any more.
    full: bool,
    disk: Vec<DiskWatch<'a>>,
    buffer: Vec<u8>,
}

const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

impl Pump<'_> {
    fn run(mut self, sink: &mut dyn FnMut(Stream, &[u8]), cancel: &Cancel) -> Result<RunResult> {
        loop {
            let [out, err, ended, cancelled] = self.wait(cancel)?;
            for (index, _) in [out, err].into_iter().enumerate().filter(|(_, ready)| *ready) {
                self.pass_on(index, sink)?;
            }
            if cancelled && !self.stopped {
                self.stop(Stop::Cancelled)?;
            }
            let init = &self.half.pidfd;
            if !self.stopped && self.disk.iter_mut().any(|watch| watch.exceeded(init)) {
                self.stop(Stop::Disk)?;
            }
            if ended {
                let message = self.half.channel.receive().map_err(|error| lost(&error))?;
                return match message.map(|received| received.message) {
                    Some(FromInit::Ended(ended)) => {
                        self.drain(sink)?;
                        Ok(self.result(&ended))
                    }
                    Some(FromInit::Failed(failure)) => Err(match failure.errno {
                        libc::EAGAIN | libc::ENOMEM => explain(&failure),
                        errno => invalid(
                            &format!("cannot {}", failure.step),
                            &std::io::Error::from_raw_os_error(errno).to_string(),
                        ),
                    }),
                    _ => Err(Error::new(codes::SANDBOX_LOST, "the sandbox ended under a command")),
                };
            }
            if Instant::now() >= self.deadline {
                // The limit inside did not hold; the whole sandbox goes.
                self.half.end()?;
                return Err(Error::new(codes::SANDBOX_LOST, "the sandbox did not stop a command")
                    .why("its time limit passed; the sandbox was killed"));
            }
        }
    }

    /// What is ready: standard output, standard error, the sandbox's message, the cancel flag.
    fn wait(&self, cancel: &Cancel) -> Result<[bool; 4]> {
        let mut left = self.deadline.saturating_duration_since(Instant::now());
        if !self.disk.is_empty() {
            left = left.min(DiskWatch::INTERVAL);
        }
        let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        let mut fds = vec![PollFd::new(&self.half.channel, PollFlags::IN)];
        if !self.stopped {
            fds.push(PollFd::new(cancel, PollFlags::IN));
        }
        let fixed = fds.len();
        let open = self.pipes.iter().flatten().filter(|_| !self.full);
        fds.extend(open.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok([false; 4]),
            Err(errno) => return Err(system("wait for a command", &errno.into())),
        }
        let ready = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
        let out = self.pipes[0].is_some() && ready(fixed);
        let err = self.pipes[1].is_some() && ready(fixed + usize::from(self.pipes[0].is_some()));
        Ok([out, err, ready(0), fixed > 1 && ready(1)])
    }

    /// Reads once and passes on what fits the limit.
    fn pass_on(&mut self, index: usize, sink: &mut dyn FnMut(Stream, &[u8])) -> Result<()> {
        let Some(pipe) = &mut self.pipes[index] else { return Ok(()) };
        let read = match pipe.read(&mut self.buffer) {
            Ok(0) => {
                self.pipes[index] = None;
                return Ok(());
            }
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(system("read a command's output", &error)),
        };
        let before = self.bytes[0] + self.bytes[1];
        let room = self.limit_bytes.saturating_sub(before);
        let kept = usize::try_from(room).unwrap_or(usize::MAX).min(read);
        if kept > 0 {
            sink(STREAMS[index], &self.buffer[..kept]);
        }
        self.bytes[index] += u64::try_from(read).unwrap_or(u64::MAX);
        self.full |= kept < read;
        if self.full && !self.stopped {
            self.stop(Stop::Output)?;
        }
        Ok(())
    }

    fn stop(&mut self, why: Stop) -> Result<()> {
        self.stopped = true;
        self.half.channel.send(&ToInit::Stop(why), &[]).map_err(|error| lost(&error))
    }

    /// Every writer is gone, so what is left in the pipes is finite and ends.
    fn drain(&mut self, sink: &mut dyn FnMut(Stream, &[u8])) -> Result<()> {
        self.stopped = true;
        for index in 0..self.pipes.len() {
            while self.pipes[index].is_some() && !self.full {
                self.pass_on(index, sink)?;
            }
        }
        Ok(())
    }

    fn result(&self, ended: &Ended) -> RunResult {
        RunResult {
            status: ended.status,
            stdout_bytes: self.bytes[0],
            stderr_bytes: self.bytes[1],
            background_processes: ended.background_processes,
            usage: Usage { cpu_us: ended.cpu_us, memory_peak_bytes: ended.memory_peak_bytes },
            duration_us: ended.duration_us,
        }
    }
}

/// Bytes as a descriptor that nobody can change any more.
fn sealed(bytes: &[u8]) -> Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = memfd_create("content", flags)
        .map_err(|errno| system("hold a content in memory", &errno.into()))?;
    let mut file = File::from(memory);
    file.write_all(bytes)
        .and_then(|()| file.rewind())
        .map_err(|error| system("hold a content in memory", &error))?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    fcntl_add_seals(&file, seals).map_err(|errno| system("seal a content", &errno.into()))?;
    Ok(file.into())
}

fn plain(name: &str) -> Result<String> {
    let bad = name.is_empty()
        || name == "."
        || name == ".."
        || name.len() > MAX_NAME_BYTES
        || name.contains(['/', '\0']);
    if bad {
        return Err(Error::new(
            codes::FILE_FAILED,
            format!("`{}` is no file name", name.escape_debug()),
        )
        .why("a name is one path component of 1 to 255 bytes"));
    }
    Ok(name.to_owned())
}

fn invalid(what: &str, why: &str) -> Error {
    Error::new(codes::COMMAND_INVALID, what).why(why)
}

fn system(action: &str, error: &std::io::Error) -> Error {
    Error::new(codes::SYSTEM, format!("cannot {action}")).why(error)
}
