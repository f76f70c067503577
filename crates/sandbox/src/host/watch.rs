//! The time of a running command: its deadline, pauses that a person asks for, and turns of code that
//! computes.
//!
//! It knows no clock and sends no signal: it is told what time it is and answers what to send.

use std::time::{Duration, Instant};

use crate::wire::PAUSE_WARNING;

/// How long a function runs before it has to take turns.
const FIRST_TURN: Duration = Duration::from_millis(150);
/// How long it runs at a time from then on, and how long it rests in between.
const TURN: Duration = Duration::from_millis(30);
const REST: Duration = Duration::from_millis(70);
/// It does not rest at the end, so that it can say itself that its time is over.
const LAST_TURN: Duration = Duration::from_millis(75);

pub(super) struct Watch {
    deadline: Instant,
    standing: Standing,
    /// How long it stood still so far because of pauses.
    paused: Duration,
}

/// Why a command may stand still.
enum Standing {
    /// Somebody may pause it, for this long at a time.
    Pauses(Pause, Duration),
    /// It takes turns with its neighbours.
    Turns(Turn),
}

enum Pause {
    No,
    /// Warned; stopped at this time.
    Warned(Instant),
    /// Standing still since then.
    Still(Instant),
}

enum Turn {
    /// Runs until then.
    Runs(Instant),
    /// Rests until then.
    Rests(Instant),
    /// Runs to its end.
    Last,
}

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// This signal to every process of the command.
    Signal(i32),
    /// The end.
    Over,
}

impl Watch {
    /// A program: it may be paused.
    pub(super) fn program(started: Instant, limit: Duration, pause_limit: Duration) -> Self {
        let standing = Standing::Pauses(Pause::No, pause_limit);
        Self { deadline: started + limit, standing, paused: Duration::ZERO }
    }

    /// A function: it is not paused, since it ends by itself or at its deadline. All it does is to compute, and a
    /// processor that never rests costs the neighbours more than the time that it takes: work of the kernel that they
    /// wait for waits for it. So what goes on for longer than most leaves the processor alone most of the time.
    pub(super) fn function(started: Instant, limit: Duration) -> Self {
        let standing = Standing::Turns(Turn::Runs(started + FIRST_TURN));
        Self { deadline: started + limit, standing, paused: Duration::ZERO }
    }

    /// When something is due next.
    pub(super) fn until(&self) -> Instant {
        match &self.standing {
            Standing::Pauses(Pause::No, _) | Standing::Turns(Turn::Last) => self.deadline,
            Standing::Pauses(Pause::Warned(stop), _) => self.deadline.min(*stop),
            Standing::Pauses(Pause::Still(since), limit) => *since + *limit,
            Standing::Turns(Turn::Runs(until) | Turn::Rests(until)) => self.deadline.min(*until),
        }
    }

    /// Begins a pause. In a session without a shell the default of this signal is to do nothing, so only programs
    /// that want to know are told.
    pub(super) fn warn(&mut self, now: Instant) -> Due {
        let Standing::Pauses(pause @ Pause::No, _) = &mut self.standing else {
            return Due::Nothing;
        };
        *pause = Pause::Warned(now + PAUSE_WARNING);
        Due::Signal(libc::SIGTSTP)
    }

    /// Ends a pause.
    pub(super) fn go_on(&mut self, now: Instant) -> Due {
        let Standing::Pauses(pause, _) = &mut self.standing else { return Due::Nothing };
        match std::mem::replace(pause, Pause::No) {
            Pause::No => return Due::Nothing,
            Pause::Warned(_) => {}
            Pause::Still(since) => {
                self.paused += now - since;
                self.deadline += now - since;
            }
        }
        Due::Signal(libc::SIGCONT)
    }

    /// How long it stood still because of pauses, up to now.
    pub(super) fn stood_still(&self, now: Instant) -> Duration {
        match self.standing {
            Standing::Pauses(Pause::Still(since), _) => self.paused + (now - since),
            _ => self.paused,
        }
    }

    /// What is due now.
    pub(super) fn due(&mut self, now: Instant) -> Due {
        let deadline = self.deadline;
        match &mut self.standing {
            Standing::Pauses(Pause::Still(since), limit) if now < *since + *limit => Due::Nothing,
            Standing::Pauses(Pause::Still(_), _) => Due::Over,
            Standing::Pauses(Pause::Warned(stop), limit) if now >= *stop => {
                self.standing = Standing::Pauses(Pause::Still(now), *limit);
                Due::Signal(libc::SIGSTOP)
            }
            _ if now >= deadline => Due::Over,
            Standing::Turns(turn) => turn.due(now, deadline),
            Standing::Pauses(..) => Due::Nothing,
        }
    }
}

impl Turn {
    fn due(&mut self, now: Instant, deadline: Instant) -> Due {
        let ends_soon = |at: Instant| at + LAST_TURN >= deadline;
        match *self {
            Self::Runs(until) if now >= until && ends_soon(now) => {
                *self = Self::Last;
                Due::Nothing
            }
            Self::Runs(until) if now >= until => {
                let last = deadline.checked_sub(LAST_TURN).unwrap_or(now);
                *self = Self::Rests(last.min(now + REST));
                Due::Signal(libc::SIGSTOP)
            }
            Self::Rests(until) if now >= until => {
                *self = if ends_soon(now) { Self::Last } else { Self::Runs(now + TURN) };
                Due::Signal(libc::SIGCONT)
            }
            Self::Runs(_) | Self::Rests(_) | Self::Last => Due::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// What a watch does of itself, in ms since its start, when it is asked whenever something is due and `late` ms
    /// after that.
    fn lived(mut watch: Watch, started: Instant, late: u64) -> Vec<(u128, Due)> {
        let mut seen = Vec::new();
        loop {
            let now = watch.until() + ms(late);
            match watch.due(now) {
                Due::Nothing => {}
                due => seen.push(((now - started).as_millis(), due)),
            }
            if seen.last().is_some_and(|(_, due)| *due == Due::Over) {
                return seen;
            }
            assert!(seen.len() < 1_000, "it never ends: {seen:?}");
        }
    }

    #[test]
    fn a_function_that_goes_on_takes_turns() {
        let (stop, go) = (Due::Signal(libc::SIGSTOP), Due::Signal(libc::SIGCONT));
        let check = |limit: u64, late: u64, expected: &[(u128, Due)]| {
            let started = Instant::now();
            let watch = Watch::function(started, ms(limit));
            assert_eq!(lived(watch, started, late), expected, "{limit} ms, {late} ms late");
        };
        // What is short never rests.
        check(0, 0, &[(0, Due::Over)]);
        check(100, 0, &[(100, Due::Over)]);
        check(150, 0, &[(150, Due::Over)]);
        check(225, 0, &[(225, Due::Over)]);
        // The last turn is a whole one: nothing ends while it rests.
        check(230, 0, &[(150, stop), (155, go), (230, Due::Over)]);
        check(310, 0, &[(150, stop), (220, go), (310, Due::Over)]);
        check(330, 0, &[(150, stop), (220, go), (250, stop), (255, go), (330, Due::Over)]);
        // A machine that is late makes no turn longer than it is, and ends it all the same.
        check(310, 7, &[(157, stop), (234, go), (317, Due::Over)]);
        check(230, 500, &[(650, Due::Over)]);
    }

    #[test]
    fn a_function_rests_most_of_a_long_time() {
        let started = Instant::now();
        let (mut ran, mut since) = (0, Some(0));
        for (at, due) in lived(Watch::function(started, ms(1_500)), started, 0) {
            match due {
                Due::Signal(libc::SIGCONT) => since = Some(at),
                _ => ran += at - since.take().expect("it runs when it is stopped or over"),
            }
        }
        assert!((500..=650).contains(&ran), "{ran} ms of 1,500");
    }

    #[test]
    fn a_program_is_warned_stands_still_and_goes_on() {
        let started = Instant::now();
        let after = |count: u64| started + ms(count);
        let mut watch = Watch::program(started, ms(5_000), ms(10_000));
        assert_eq!(watch.due(after(400)), Due::Nothing);
        assert_eq!(watch.warn(after(400)), Due::Signal(libc::SIGTSTP));
        assert_eq!(watch.warn(after(401)), Due::Nothing, "it is warned once");
        assert_eq!(watch.due(after(1_399)), Due::Nothing);
        assert_eq!(watch.due(after(1_400)), Due::Signal(libc::SIGSTOP));
        assert_eq!(watch.due(after(9_000)), Due::Nothing, "its time stands still as well");
        assert_eq!(watch.stood_still(after(3_400)), ms(2_000));
        assert_eq!(watch.go_on(after(3_400)), Due::Signal(libc::SIGCONT));
        assert_eq!(watch.go_on(after(3_400)), Due::Nothing);
        assert_eq!(watch.stood_still(after(4_000)), ms(2_000));
        assert_eq!(watch.due(after(6_999)), Due::Nothing);
        assert_eq!(watch.due(after(7_000)), Due::Over);
    }

    #[test]
    fn a_pause_has_an_end_and_a_function_none() {
        let started = Instant::now();
        let after = |count: u64| started + ms(count);
        let mut watch = Watch::program(started, ms(5_000), ms(10_000));
        watch.warn(after(0));
        assert_eq!(watch.due(after(1_000)), Due::Signal(libc::SIGSTOP));
        assert_eq!(watch.due(after(10_999)), Due::Nothing);
        assert_eq!(watch.due(after(11_000)), Due::Over);
        let mut watch = Watch::program(started, ms(500), ms(10_000));
        watch.warn(after(0));
        assert_eq!(watch.due(after(500)), Due::Over, "a warning does not lengthen its time");
        let mut watch = Watch::function(started, ms(500));
        assert_eq!(watch.warn(after(0)), Due::Nothing);
        assert_eq!(watch.go_on(after(0)), Due::Nothing);
    }
}
