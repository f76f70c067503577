//! Which process this is, told apart from every other that ever ran on the machine.

use std::fs;

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

/// A process: boot, process id namespace, id and start time. Parts that the system does not tell
/// are `None`, and then nothing is concluded from them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) boot: Option<String>,
    pub(crate) pid_namespace: Option<String>,
    pub(crate) pid: u32,
    pub(crate) start_ticks: Option<u64>,
}

impl Owner {
    /// This process.
    pub(crate) fn current() -> Self {
        let pid = std::process::id();
        Self {
            boot: fs::read_to_string("/proc/sys/kernel/random/boot_id")
                .ok()
                .map(|id| id.trim_end().to_owned()),
            pid_namespace: fs::read_link("/proc/self/ns/pid")
                .ok()
                .map(|link| link.to_string_lossy().into_owned()),
            pid,
            start_ticks: stat(pid).map(|stat| stat.start_ticks),
        }
    }

    /// Whether the process has provably ended, seen from `here`. `false` may also mean that nobody
    /// can tell: its process ids are of another namespace, or the system hides them.
    pub(crate) fn is_gone(&self, here: &Self) -> bool {
        let both = |a: &Option<String>, b: &Option<String>| a.is_some() && b.is_some();
        if both(&self.boot, &here.boot) && self.boot != here.boot {
            return true;
        }
        if !both(&self.pid_namespace, &here.pid_namespace)
            || self.pid_namespace != here.pid_namespace
        {
            return false;
        }
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return false };
        if test_kill_process(pid) == Err(rustix::io::Errno::SRCH) {
            return true;
        }
        match (stat(self.pid), self.start_ticks) {
            (Some(now), Some(start_ticks)) => now.start_ticks != start_ticks || now.is_ended,
            _ => false,
        }
    }
}

struct Stat {
    start_ticks: u64,
    /// It has ended and only waits for its parent to notice.
    is_ended: bool,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).map_or(1, Iterator::count);
    parse_stat(&text, threads)
}

/// Reads the fields after the command name, which stands in parentheses and may hold anything.
fn parse_stat(text: &str, threads: impl FnOnce() -> usize) -> Option<Stat> {
    /// Index of the start time among the fields after the name (field 22 of all).
    const START_TICKS: usize = 19;
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let state = *fields.first()?;
    let start_ticks = fields.get(START_TICKS)?.parse().ok()?;
    // A main thread that ended while others run shows the same letter, but then it is not alone.
    let is_ended = state == "X" || (state == "Z" && threads() <= 1);
    Some(Stat { start_ticks, is_ended })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_shift_the_fields() {
        let check = |state: &str, threads: usize, ended: bool| {
            let zeros = "0 ".repeat(18);
            let text = format!("12 (a) b) ({state})) {state} {zeros}777 0 0\n");
            let stat = parse_stat(&text, || threads).unwrap();
            assert_eq!((stat.start_ticks, stat.is_ended), (777, ended), "{state}");
        };
        check("S", 1, false);
        check("Z", 1, true);
        check("Z", 2, false);
        check("X", 1, true);
        assert!(parse_stat("", || 1).is_none());
        assert!(parse_stat("1 (a) S 1 2", || 1).is_none());
    }

    #[test]
    fn only_proof_counts_as_gone() {
        let here = Owner::current();
        let check = |change: &dyn Fn(&mut Owner), gone: bool| {
            let mut owner = here.clone();
            change(&mut owner);
            assert_eq!(owner.is_gone(&here), gone, "{owner:?}");
        };
        let other = || Some("other".to_owned());
        check(&|_| (), false);
        check(&|owner| owner.start_ticks = Some(1), true);
        check(&|owner| owner.start_ticks = None, false);
        check(&|owner| owner.boot = other(), true);
        check(&|owner| owner.boot = None, false);
        check(&|owner| owner.pid = 4_194_305, true);
        check(&|owner| (owner.pid, owner.pid_namespace) = (4_194_305, other()), false);
        check(&|owner| (owner.pid, owner.pid_namespace) = (4_194_305, None), false);
    }
}
