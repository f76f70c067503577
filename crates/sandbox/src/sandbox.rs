//! A live sandbox, as its owner holds it.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::sync::Mutex;
use std::time::Duration;

use rustix::fs::{
    FileType, MemfdFlags, OFlags, SealFlags, fcntl_add_seals, fcntl_setfl, memfd_create,
};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::attest::Attestation;
use crate::command::{Cancel, Command, RunResult, Stream};
use crate::disk::{DiskWatch, Place};
use crate::egress::{self, EgressProxy};
use crate::entry::Task;
use crate::live::Live;
use crate::owner::{Half, guard, lost};
use crate::pump::{Bounds, Ends, Pump, Terminal};
use crate::spec::{HOME, SandboxSpec};
use crate::wire::{FromInit, Launch, ToInit};
use crate::{Error, Result, codes};

/// How long a file operation may take.
const FILE_LIMIT: Duration = Duration::from_secs(30);

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
    places: Mutex<Vec<DiskWatch>>,
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
        let places = places.map(|(dir, device)| Place { dir, device, limit_bytes });
        let places = Mutex::new(places.map(DiskWatch::new).collect());
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
    /// left, background ones included, and no connection. The time limit is enforced inside and again
    /// here.
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
        self.run_live(command, Live::default(), sink, cancel)
    }

    /// The same with what somebody at it gives: input as it comes, a terminal, orders.
    ///
    /// # Errors
    /// As [`Sandbox::run`]; `sandbox_command_invalid` also for an input that is no pipe.
    pub fn run_live(
        &self,
        command: &Command,
        live: Live<'_>,
        sink: &mut dyn FnMut(Stream, &[u8]),
        cancel: &Cancel,
    ) -> Result<RunResult> {
        let launch = Launch { terminal: live.terminal, ..self.launch(command)? };
        let [timeout, pause_limit] =
            [launch.timeout_ms, launch.pause_limit_ms].map(Duration::from_millis);
        if let Some(input) = &live.input {
            check_pipe(input)?;
        }
        let mut half = guard(&self.half);
        let ends = match live.terminal {
            Some(_) => start_on_terminal(&mut half, launch, live, &command.stdin)?,
            None => start_on_pipes(&mut half, &ToInit::Run(launch), live, &command.stdin)?,
        };
        let mut places = guard(&self.places);
        let bounds = Bounds {
            output_bytes: command.output_limit_bytes,
            timeout,
            pause_limit,
            disk: &mut places,
        };
        let ran = Pump::new(&mut half, ends, bounds).run(sink, cancel);
        // Nobody is left who could want a connection of this command; each is recorded by now.
        self.proxy.iter().for_each(EgressProxy::settle);
        ran
    }

    /// Runs an entry function of the program in a process of its own, as [`Sandbox::run`] does a
    /// command.
    ///
    /// # Errors
    /// `sandbox_command_invalid` for a name that the host program does not know; `sandbox_lost`.
    pub fn enter(
        &self,
        task: &Task,
        sink: &mut dyn FnMut(Stream, &[u8]),
        cancel: &Cancel,
    ) -> Result<RunResult> {
        let timeout_ms = bounded(task.timeout_ms, self.max_duration_ms);
        let message = ToInit::Enter { entry: task.entry.clone(), timeout_ms };
        let mut half = guard(&self.half);
        let ends = start_on_pipes(&mut half, &message, Live::default(), &task.input)?;
        let mut places = guard(&self.places);
        let bounds = Bounds {
            output_bytes: task.output_limit_bytes,
            timeout: Duration::from_millis(timeout_ms),
            pause_limit: Duration::ZERO,
            disk: &mut places,
        };
        Pump::new(&mut half, ends, bounds).run(sink, cancel)
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
        Ok(Launch {
            argv: command.argv.clone(),
            env,
            cwd: command.cwd.as_str().to_owned(),
            timeout_ms: bounded(command.timeout_ms, self.max_duration_ms),
            pause_limit_ms: bounded(command.pause_limit_ms, Command::PAUSE_LIMIT_MS),
            terminal: None,
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

/// A time that was asked for, within its limit; 0 asks for all of it.
const fn bounded(wanted_ms: u64, limit_ms: u64) -> u64 {
    if wanted_ms == 0 || wanted_ms > limit_ms { limit_ms } else { wanted_ms }
}

/// Starts a command with pipes as its standard streams.
fn start_on_pipes<'a>(
    half: &mut Half,
    message: &ToInit,
    live: Live<'a>,
    stdin: &[u8],
) -> Result<Ends<'a>> {
    let stdin = match live.input {
        Some(input) => input,
        None if stdin.is_empty() => {
            File::open("/dev/null").map_err(|error| system("open /dev/null", &error))?.into()
        }
        None => sealed(stdin)?,
    };
    let pipe =
        || pipe_with(PipeFlags::CLOEXEC).map_err(|errno| system("make a pipe", &errno.into()));
    let ((out, out_end), (err, err_end)) = (pipe()?, pipe()?);
    send(half, message, &[stdin.as_fd(), out_end.as_fd(), err_end.as_fd()])?;
    let pipes = [Some(File::from(out)), Some(File::from(err))];
    Ok(Ends { pipes, terminal: None, orders: live.orders })
}

/// Starts a command on a terminal of the sandbox's own; its other side comes out.
fn start_on_terminal<'a>(
    half: &mut Half,
    launch: Launch,
    live: Live<'a>,
    stdin: &[u8],
) -> Result<Ends<'a>> {
    send(half, &ToInit::Run(launch), &[])?;
    let answer = half.channel.receive_within(FILE_LIMIT).map_err(|error| lost(&error))?;
    let master = match (answer.message, answer.descriptors.into_iter().next()) {
        (FromInit::Terminal, Some(master)) => File::from(master),
        (FromInit::Failed(failure), _) => {
            let why = std::io::Error::from_raw_os_error(failure.errno).to_string();
            return Err(invalid(&format!("cannot {}", failure.step), &why));
        }
        _ => return Err(Error::new(codes::SANDBOX_LOST, "the sandbox answered nonsense")),
    };
    // Input never waits for a program that does not read: output must go on.
    fcntl_setfl(&master, OFlags::RDWR | OFlags::NONBLOCK)
        .map_err(|errno| system("set a terminal up", &errno.into()))?;
    let output = master.try_clone().map_err(|error| system("set a terminal up", &error))?;
    let terminal = Terminal { master, input: live.input.map(File::from), pending: stdin.to_vec() };
    Ok(Ends { pipes: [Some(output), None], terminal: Some(terminal), orders: live.orders })
}

fn send(half: &mut Half, message: &ToInit, streams: &[BorrowedFd<'_>]) -> Result<()> {
    half.channel.send(message, streams).map_err(|error| {
        if error.is(glasshouse_ipc::codes::FRAME_TOO_LARGE) {
            invalid("the command is too long", "arguments and environment exceed 160 KiB")
        } else {
            lost(&error)
        }
    })
}

/// A pipe carries bytes and nothing else; through any other descriptor a command could do more to
/// what is behind it than read.
fn check_pipe(input: &OwnedFd) -> Result<()> {
    let is_pipe = rustix::fs::fstat(input)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    if is_pipe { Ok(()) } else { Err(invalid("the input cannot be handed in", "it is no pipe")) }
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

pub(crate) fn invalid(what: &str, why: &str) -> Error {
    Error::new(codes::COMMAND_INVALID, what).why(why)
}

pub(crate) fn system(action: &str, error: &std::io::Error) -> Error {
    Error::new(codes::SYSTEM, format!("cannot {action}")).why(error)
}
