//! System call filters.
//!
//! One program decides every call. What it does not name is "not implemented", so libraries fall
//! back as they do on older kernels (`clone3` becomes `clone`, whose flags can be inspected). What
//! would weaken the isolation is "not permitted", and a few calls are decided by an argument.
//!
//! The program is a binary search over call numbers, not a list: the kernel evaluates a filter for
//! every number when it is installed, which with lists was the largest part of making a sandbox.

mod calls;

use std::collections::BTreeMap;

use rustix::io::Errno;

use self::calls::{
    BARE, BUILD, COMPUTE, Call, DENIED, MAPPING, NAMESPACE_FLAGS, OF_A_PROCESS, OPTIONAL,
    TERMINAL_INJECTION, UNSUPPORTED, old,
};
use super::confine::INSIDE_ID;
use super::sys;
use crate::system_calls::CallList;
use crate::template::Profile;
use crate::wire::{Context as _, Failure};

/// What may be said about a call in a list of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A profile has it, or a custom one may.
    Free,
    /// No list can allow it.
    Forbidden,
    /// No list can deny it: a command could not even start.
    Needed,
}

/// Every call that has a name here.
pub(crate) fn known() -> impl Iterator<Item = (&'static str, i64, Standing)> {
    let list = |calls: &'static [Call], standing| {
        calls.iter().map(move |call| (calls::name(call), call.1, standing))
    };
    let free = [COMPUTE, old::COMPUTE, BUILD, old::BUILD, OPTIONAL];
    let free = free.into_iter().flat_map(move |calls| list(calls, Standing::Free));
    let forbidden = [DENIED, old::DENIED, UNSUPPORTED];
    let forbidden = forbidden.into_iter().flat_map(move |calls| list(calls, Standing::Forbidden));
    let clone3 = ("clone3", libc::SYS_clone3, Standing::Forbidden);
    free.chain(forbidden).chain([clone3]).map(|(name, number, standing)| match number {
        libc::SYS_execve => (name, number, Standing::Needed),
        _ => (name, number, standing),
    })
}

/// The filters of one profile.
pub(crate) struct Filters {
    /// For the first process and everything it starts.
    common: Vec<libc::sock_filter>,
    /// In addition for each command.
    command: Option<Vec<libc::sock_filter>>,
}

impl Filters {
    /// Assembles the filters of a profile.
    pub(crate) fn assemble(profile: Profile) -> Self {
        Self {
            common: assemble(&standard()),
            command: match profile {
                Profile::Strict => Some(assemble(&strict())),
                Profile::Standard | Profile::StandardNet => None,
            },
        }
    }

    /// Assembles the filters of a custom profile. A call that the list allows gets what the
    /// standard profile says of it, its arguments inspected.
    pub(crate) fn custom(list: &CallList) -> Self {
        let numbers: BTreeMap<&str, u32> =
            known().map(|(name, call, _)| (name, number(call))).collect();
        let named = |names: &[String]| -> Vec<u32> {
            names.iter().filter_map(|name| numbers.get(name.as_str()).copied()).collect()
        };
        let usual = standard();
        let mut common = standard();
        let mut rules = match list.base() {
            Profile::Strict => strict(),
            Profile::Standard | Profile::StandardNet => standard(),
        };
        for call in named(list.allowed()) {
            let verdict = usual.get(&call).cloned().unwrap_or(Verdict::Allow);
            common.entry(call).or_insert(Verdict::Allow);
            rules.insert(call, verdict);
        }
        rules.extend(named(list.denied()).into_iter().map(|call| (call, Verdict::NotPermitted)));
        Self { common: assemble(&common), command: Some(assemble(&rules)) }
    }

    /// Confines the first process. `no_new_privs` must be set.
    pub(crate) fn confine_init(&self) -> Result<(), Failure> {
        sys::install_filter(&self.common).during("install the system call filter")
    }

    /// Confines a command further, just before `exec`.
    pub(crate) fn confine_command(&self) -> Result<(), Errno> {
        self.command.as_ref().map_or(Ok(()), |filter| sys::install_filter(filter))
    }
}

/// Confines an entry function's process: the filter of the first process still holds, and of what is
/// left this lets through what computing needs.
pub(crate) fn confine_entry() -> Result<(), Errno> {
    sys::install_filter(&assemble(&compute_only()))
}

/// What happens to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Allow,
    NotImplemented,
    NotPermitted,
    /// As on a file system that cannot do it.
    NotSupported,
    /// Decided by the low 32 bits of an argument, which are all the kernel looks at for these:
    /// the first condition that holds decides, else the last field does.
    Argument(u32, Vec<(Condition, Verdict)>, Box<Verdict>),
}

/// About one argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Equals(u32),
    /// Any of these bits is set.
    HasAny(u32),
}

type Rules = BTreeMap<u32, Verdict>;

fn number(call: i64) -> u32 {
    u32::try_from(call).expect("a call number is small and not negative")
}

fn with(lists: &[&[Call]], verdict: &Verdict) -> impl Iterator<Item = (u32, Verdict)> {
    let calls: Vec<u32> = lists.iter().copied().flatten().map(|call| number(call.1)).collect();
    calls.into_iter().map({
        let verdict = verdict.clone();
        move |call| (call, verdict.clone())
    })
}

fn standard() -> Rules {
    use Condition::{Equals, HasAny};
    use Verdict::{Allow, Argument, NotPermitted};
    let mut rules: Rules = with(&[COMPUTE, old::COMPUTE, BUILD, old::BUILD], &Allow).collect();
    rules.extend(with(&[DENIED, old::DENIED], &NotPermitted));
    rules.extend(with(&[UNSUPPORTED], &Verdict::NotSupported));
    let namespaces = NAMESPACE_FLAGS.iter().fold(0, |all, flag| all | flag.cast_unsigned());
    rules.insert(
        number(libc::SYS_clone),
        Argument(0, vec![(HasAny(namespaces), NotPermitted)], Box::new(Allow)),
    );
    for call in [libc::SYS_setresuid, libc::SYS_setresgid] {
        rules.insert(number(call), own_identity());
    }
    only_oneself(&mut rules);
    let injection = TERMINAL_INJECTION.map(|request| (Equals(request), NotPermitted));
    rules.insert(number(libc::SYS_ioctl), Argument(1, injection.into(), Box::new(Allow)));
    let family = |family: i32, verdict| (Equals(family.cast_unsigned()), verdict);
    // Of netlink only the routing tables, which list the sandbox's own loopback: some runtimes
    // enumerate interfaces at start.
    let route = (Equals(libc::NETLINK_ROUTE.cast_unsigned()), Allow);
    let netlink = Argument(2, vec![route], Box::new(NotPermitted));
    // Streams and datagrams; other protocols are rarely used code.
    let usual = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP];
    let usual = usual.map(|protocol| (Equals(protocol.cast_unsigned()), Allow));
    let internet = Argument(2, usual.into(), Box::new(NotPermitted));
    // Other families reach the machine's host (vsock), its links (packet) or rarely used code.
    let families = vec![
        family(libc::AF_UNIX, Allow),
        family(libc::AF_INET, internet.clone()),
        family(libc::AF_INET6, internet),
        family(libc::AF_NETLINK, netlink),
    ];
    rules.insert(number(libc::SYS_socket), Argument(0, families, Box::new(NotPermitted)));
    rules.insert(number(libc::SYS_socketpair), pair());
    rules
}

/// Pairs of other families reach as much of the kernel as single sockets do.
fn pair() -> Verdict {
    let local = (Condition::Equals(libc::AF_UNIX.cast_unsigned()), Verdict::Allow);
    Verdict::Argument(0, vec![local], Box::new(Verdict::NotPermitted))
}

/// Lets a process change its own limits and priority, and nobody else's.
fn only_oneself(rules: &mut Rules) {
    use Condition::Equals;
    use Verdict::{Allow, Argument, NotPermitted};
    let itself = |index, then| Argument(index, vec![(Equals(0), then)], Box::new(NotPermitted));
    for (call, index) in OF_A_PROCESS {
        if rules.contains_key(&number(call)) {
            rules.insert(number(call), itself(index, Allow));
        }
    }
    // One process, or the group of processes that a command is; a user is everybody.
    let whose = [libc::PRIO_PROCESS, libc::PRIO_PGRP];
    let cases = whose.map(|whose| (Equals(whose), itself(1, Allow)));
    let priority = Argument(0, cases.into(), Box::new(NotPermitted));
    if rules.contains_key(&number(libc::SYS_setpriority)) {
        rules.insert(number(libc::SYS_setpriority), priority);
    }
}

/// Allows a process to become who it is already, as make and others do before they start a program.
fn own_identity() -> Verdict {
    let keeps = |index, then: Verdict| {
        let unchanged = Condition::Equals(u32::MAX);
        let own = Condition::Equals(INSIDE_ID);
        let cases = vec![(unchanged, then.clone()), (own, then)];
        Verdict::Argument(index, cases, Box::new(Verdict::NotPermitted))
    };
    keeps(0, keeps(1, keeps(2, Verdict::Allow)))
}

/// No file, no socket, no process, no memory that can be executed.
fn compute_only() -> Rules {
    let mut rules: Rules = with(&[BARE], &Verdict::Allow).collect();
    let executable = Condition::HasAny(libc::PROT_EXEC.cast_unsigned());
    let data =
        Verdict::Argument(2, vec![(executable, Verdict::NotPermitted)], Box::new(Verdict::Allow));
    rules.extend(with(&[MAPPING], &data));
    rules
}

fn strict() -> Rules {
    use Condition::{Equals, HasAny};
    use Verdict::{Allow, Argument, NotPermitted};
    let mut rules: Rules = with(&[COMPUTE, old::COMPUTE], &Allow).collect();
    rules.extend(with(&[DENIED, old::DENIED], &NotPermitted));
    rules.extend(with(&[UNSUPPORTED], &Verdict::NotSupported));
    // Files may be opened to read only, so none can be made.
    let writing = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
    let read_only = |index| {
        let writes = (HasAny(writing.cast_unsigned()), NotPermitted);
        Argument(index, vec![writes], Box::new(Allow))
    };
    rules.insert(number(libc::SYS_openat), read_only(2));
    #[cfg(target_arch = "x86_64")]
    rules.insert(number(libc::SYS_open), read_only(1));
    // Threads, but no process.
    let thread = (HasAny(libc::CLONE_THREAD.cast_unsigned()), Allow);
    rules.insert(number(libc::SYS_clone), Argument(0, vec![thread], Box::new(NotPermitted)));
    let local = (Equals(libc::AF_UNIX.cast_unsigned()), Allow);
    rules.insert(number(libc::SYS_socket), Argument(0, vec![local], Box::new(NotPermitted)));
    rules.insert(number(libc::SYS_socketpair), pair());
    // A socket that gets a name is a file.
    rules.insert(number(libc::SYS_bind), NotPermitted);
    only_oneself(&mut rules);
    rules
}

// The instructions of classic BPF that are used; the numbers are the kernel's interface.
const LOAD: u16 = 0x20;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

// Offsets in the kernel's description of a call.
const CALL: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// The kernel's name of the architecture this program is built for. Calls made through another
/// entry (32-bit programs) have other numbers, so they end the process.
#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xC000_00B7;

const fn instruction(code: u16, if_true: u8, if_false: u8, value: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: if_true, jf: if_false, k: value }
}

fn assemble(rules: &Rules) -> Vec<libc::sock_filter> {
    // Neighbours of equal verdict become one segment that starts at a number.
    let mut segments: Vec<(u32, &Verdict)> = vec![(0, &Verdict::NotImplemented)];
    let mut next = 0;
    for (call, verdict) in rules {
        if *call > next {
            push(&mut segments, next, &Verdict::NotImplemented);
        }
        push(&mut segments, *call, verdict);
        next = call + 1;
    }
    push(&mut segments, next, &Verdict::NotImplemented);
    let mut program = vec![
        instruction(LOAD, 0, 0, ARCHITECTURE),
        instruction(IF_EQUAL, 1, 0, NATIVE),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        instruction(LOAD, 0, 0, CALL),
    ];
    program.extend(search(&segments));
    program
}

fn push<'a>(segments: &mut Vec<(u32, &'a Verdict)>, from: u32, verdict: &'a Verdict) {
    match segments.last_mut() {
        Some((_, last)) if *last == verdict => {}
        Some((start, last)) if *start == from => *last = verdict,
        _ => segments.push((from, verdict)),
    }
}

/// Finds the segment of the loaded number. Segments are sorted and not empty.
fn search(segments: &[(u32, &Verdict)]) -> Vec<libc::sock_filter> {
    let (left, right) = segments.split_at(segments.len() / 2);
    let (middle, verdict) = right[0];
    if left.is_empty() {
        return decide(verdict);
    }
    let (left, right) = (search(left), search(right));
    // A conditional jump reaches 255 instructions only, so the long way is unconditional.
    let over = u32::try_from(left.len()).expect("a filter is short");
    let mut program = vec![instruction(IF_AT_LEAST, 0, 1, middle), instruction(JUMP, 0, 0, over)];
    program.extend(left);
    program.extend(right);
    program
}

fn decide(verdict: &Verdict) -> Vec<libc::sock_filter> {
    let errno = |errno: i32| libc::SECCOMP_RET_ERRNO | errno.cast_unsigned();
    let answer = |value| vec![instruction(RETURN, 0, 0, value)];
    match verdict {
        Verdict::Allow => answer(libc::SECCOMP_RET_ALLOW),
        Verdict::NotImplemented => answer(errno(libc::ENOSYS)),
        Verdict::NotPermitted => answer(errno(libc::EPERM)),
        Verdict::NotSupported => answer(errno(libc::EOPNOTSUPP)),
        Verdict::Argument(index, cases, otherwise) => {
            let offset = ARGUMENTS + index * 8 + u32::from(cfg!(target_endian = "big")) * 4;
            let mut program = vec![instruction(LOAD, 0, 0, offset)];
            for (condition, verdict) in cases {
                let then = decide(verdict);
                let over = u8::try_from(then.len()).expect("a case is short");
                program.push(match condition {
                    Condition::Equals(value) => instruction(IF_EQUAL, 0, over, *value),
                    Condition::HasAny(bits) => instruction(IF_ANY_BIT, 0, over, *bits),
                });
                program.extend(then);
            }
            program.extend(decide(otherwise));
            program
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a filter as the kernel would.
    fn evaluate(
        program: &[libc::sock_filter],
        architecture: u32,
        call: i64,
        args: [u32; 3],
    ) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            let holds = match step.code {
                LOAD => {
                    loaded = match step.k {
                        CALL => number(call),
                        ARCHITECTURE => architecture,
                        offset => args[((offset - ARGUMENTS) / 8) as usize],
                    };
                    continue;
                }
                JUMP => {
                    at += step.k as usize;
                    continue;
                }
                RETURN => return step.k,
                IF_EQUAL => loaded == step.k,
                IF_AT_LEAST => loaded >= step.k,
                IF_ANY_BIT => loaded & step.k != 0,
                other => panic!("unknown instruction {other}"),
            };
            at += usize::from(if holds { step.jt } else { step.jf });
        }
    }

    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
    const DENY: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    const ABSENT: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    const LACKING: u32 = libc::SECCOMP_RET_ERRNO | libc::EOPNOTSUPP as u32;

    #[test]
    fn each_profile_decides_as_the_table_says() {
        let (standard, strict) = (assemble(&standard()), assemble(&strict()));
        let check = |call: i64, args: [i32; 3], expected: [u32; 2]| {
            let args = args.map(i32::cast_unsigned);
            let found = [&standard, &strict].map(|p| evaluate(p, NATIVE, call, args));
            assert_eq!(found, expected, "call {call} with {args:?}");
        };
        check(libc::SYS_read, [0; 3], [ALLOW, ALLOW]);
        check(libc::SYS_execve, [0; 3], [ALLOW, ALLOW]);
        check(libc::SYS_unlinkat, [0; 3], [ALLOW, ABSENT]);
        check(libc::SYS_fallocate, [0; 3], [LACKING, LACKING]);
        check(libc::SYS_bind, [0; 3], [ALLOW, DENY]);
        check(libc::SYS_kill, [0; 3], [ALLOW, ABSENT]);
        check(libc::SYS_clone3, [0; 3], [ABSENT, ABSENT]);
        check(libc::SYS_mount, [0; 3], [DENY, DENY]);
        check(libc::SYS_ptrace, [0; 3], [DENY, DENY]);
        check(libc::SYS_io_uring_setup, [0; 3], [DENY, DENY]);
        check(100_000, [0; 3], [ABSENT, ABSENT]);
        // Who one is already one may become; nobody else.
        check(libc::SYS_setresuid, [-1, 1000, -1], [ALLOW, DENY]);
        check(libc::SYS_setresgid, [1000, 1000, 1000], [ALLOW, DENY]);
        check(libc::SYS_setresuid, [-1, 0, -1], [DENY, DENY]);
        check(libc::SYS_setresuid, [0, 1000, 1000], [DENY, DENY]);
        check(libc::SYS_setuid, [1000, 0, 0], [DENY, DENY]);
        check(libc::SYS_clone, [libc::SIGCHLD, 0, 0], [ALLOW, DENY]);
        check(libc::SYS_clone, [libc::CLONE_VM | libc::CLONE_THREAD, 0, 0], [ALLOW, ALLOW]);
        for flag in NAMESPACE_FLAGS {
            check(libc::SYS_clone, [flag | libc::SIGCHLD, 0, 0], [DENY, DENY]);
        }
        check(libc::SYS_ioctl, [0, 0x5401, 0], [ALLOW, ALLOW]);
        check(libc::SYS_ioctl, [0, 0x5412, 0], [DENY, ALLOW]);
        check(libc::SYS_socket, [libc::AF_UNIX, 1, 0], [ALLOW, ALLOW]);
        check(libc::SYS_socket, [libc::AF_INET, 1, 0], [ALLOW, DENY]);
        check(libc::SYS_socket, [libc::AF_INET6, 1, 0], [ALLOW, DENY]);
        for (protocol, verdict) in [
            (libc::IPPROTO_TCP, ALLOW),
            (libc::IPPROTO_UDP, ALLOW),
            (libc::IPPROTO_MPTCP, DENY),
            (libc::IPPROTO_SCTP, DENY),
            (libc::IPPROTO_UDPLITE, DENY),
        ] {
            check(libc::SYS_socket, [libc::AF_INET6, 1, protocol], [verdict, DENY]);
        }
        check(libc::SYS_socket, [libc::AF_NETLINK, 3, libc::NETLINK_ROUTE], [ALLOW, DENY]);
        check(libc::SYS_socket, [libc::AF_NETLINK, 3, libc::NETLINK_AUDIT], [DENY, DENY]);
        check(libc::SYS_socket, [libc::AF_VSOCK, 1, 0], [DENY, DENY]);
        check(libc::SYS_socket, [libc::AF_PACKET, 3, 0], [DENY, DENY]);
        check(libc::SYS_socketpair, [libc::AF_UNIX, 1, 0], [ALLOW, ALLOW]);
        check(libc::SYS_socketpair, [30, 1, 0], [DENY, DENY]);
        check(libc::SYS_prlimit64, [0, 7, 0], [ALLOW, ALLOW]);
        check(libc::SYS_prlimit64, [1, 7, 0], [DENY, DENY]);
        check(libc::SYS_setpriority, [libc::PRIO_PROCESS as i32, 0, 5], [ALLOW, ABSENT]);
        check(libc::SYS_setpriority, [libc::PRIO_PROCESS as i32, 1, 5], [DENY, ABSENT]);
        check(libc::SYS_setpriority, [libc::PRIO_USER as i32, 0, 5], [DENY, ABSENT]);
        check(libc::SYS_sched_setscheduler, [0, 0, 0], [ALLOW, ABSENT]);
        check(libc::SYS_sched_setscheduler, [1, 5, 0], [DENY, ABSENT]);
        check(libc::SYS_sched_setattr, [1, 0, 0], [DENY, ABSENT]);
        check(libc::SYS_ioprio_set, [1, 0, 0], [ALLOW, ABSENT]);
        check(libc::SYS_ioprio_set, [1, 1, 0], [DENY, ABSENT]);
        check(libc::SYS_openat, [0, 0, libc::O_RDONLY | libc::O_CLOEXEC], [ALLOW, ALLOW]);
        check(libc::SYS_openat, [0, 0, libc::O_RDWR], [ALLOW, DENY]);
        check(libc::SYS_openat, [0, 0, libc::O_CREAT], [ALLOW, DENY]);
        // A strict command is under both filters; the stricter answer wins.
    }

    #[test]
    fn the_search_agrees_with_the_rules_for_every_number() {
        for rules in [standard(), strict()] {
            let program = assemble(&rules);
            for call in 0..1024 {
                let expected = match rules.get(&call).unwrap_or(&Verdict::NotImplemented) {
                    Verdict::Allow => ALLOW,
                    Verdict::NotImplemented => ABSENT,
                    Verdict::NotPermitted => DENY,
                    Verdict::NotSupported => LACKING,
                    Verdict::Argument(..) => continue,
                };
                let found = evaluate(&program, NATIVE, i64::from(call), [0; 3]);
                assert_eq!(found, expected, "call {call}");
            }
        }
    }

    #[test]
    fn another_architecture_ends_the_process() {
        let found = evaluate(&assemble(&standard()), 0x4000_0003, libc::SYS_read, [0; 3]);
        assert_eq!(found, libc::SECCOMP_RET_KILL_PROCESS);
    }

    #[test]
    fn nothing_is_both_needed_and_denied() {
        for list in [COMPUTE, BUILD, OPTIONAL, UNSUPPORTED, old::COMPUTE, old::BUILD] {
            for call in list {
                assert!(!DENIED.contains(call) && !old::DENIED.contains(call), "{call:?}");
            }
        }
        let mut numbers: Vec<i64> = known().map(|(_, number, _)| number).collect();
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all, "a call is in two lists");
    }

    #[test]
    fn a_custom_profile_adds_and_takes_away_and_never_opens_the_core() {
        let check = |base, allow: &[&str], deny: &[&str], rows: &[(i64, [u32; 3], u32)]| {
            let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let list = CallList::new(base, names(allow), names(deny)).unwrap();
            let filters = Filters::custom(&list);
            for (call, args, expected) in rows {
                // The stricter answer of both filters wins; "not permitted" is the stricter error.
                let answers = [Some(&filters.common), filters.command.as_ref()];
                let found =
                    answers.into_iter().flatten().map(|f| evaluate(f, NATIVE, *call, *args));
                let strictest = found.min_by_key(|found| if *found == ALLOW { 2 } else { 1 });
                assert_eq!(strictest, Some(*expected), "{list:?}: call {call} with {args:?}");
            }
        };
        let namespace = libc::CLONE_NEWUSER.cast_unsigned();
        check(
            Profile::Strict,
            &["kill", "clone", "mq_open"],
            &["getrandom"],
            &[
                (libc::SYS_kill, [0; 3], ALLOW),
                (libc::SYS_mq_open, [0; 3], ALLOW),
                (libc::SYS_clone, [17, 0, 0], ALLOW),
                (libc::SYS_clone, [namespace, 0, 0], DENY),
                (libc::SYS_getrandom, [0; 3], DENY),
                (libc::SYS_unlinkat, [0; 3], ABSENT),
                (libc::SYS_mount, [0; 3], DENY),
            ],
        );
        check(
            Profile::Standard,
            &[],
            &["socket", "kill"],
            &[
                (libc::SYS_socket, [1, 1, 0], DENY),
                (libc::SYS_kill, [0; 3], DENY),
                (libc::SYS_unlinkat, [0; 3], ALLOW),
                (libc::SYS_mq_open, [0; 3], ABSENT),
            ],
        );
    }
}
