//! Who approves: the person at the terminal, a scenario's script, or nobody.

use std::io::{BufRead, IsTerminal};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use glasshouse_kernel::{Answer, ReviewItem, Reviewer, Wider};
use glasshouse_model::body::GrantScope;
use glasshouse_model::{Actor, PrincipalKind};
use glasshouse_provider::{ReviewAnswer, ScriptedReview};

use crate::command::review::{asked_lines, rule_lines};
use crate::output::{self, visible};

/// Asks at the terminal. Without one nobody is asked.
pub(crate) struct Terminal;

impl Terminal {
    /// Whether a person can be asked.
    pub(crate) fn is_there() -> bool {
        std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }
}

impl Reviewer for Terminal {
    fn approver(&self) -> Actor {
        Actor { kind: PrincipalKind::User, id: "local".to_owned() }
    }

    fn review(&self, item: &ReviewItem) -> Answer {
        // One question at a time; the others wait, and may be answered elsewhere meanwhile.
        let mut lines = lines().lock().unwrap_or_else(PoisonError::into_inner);
        if item.withdrawn.is_set() {
            return Answer::Nobody;
        }
        output::note(&format!(
            "\nApproval {} is wanted for {}:",
            item.approval,
            visible(&item.request.tool, false)
        ));
        for reason in &item.request.reasons {
            output::note(&format!("  because {}", visible(reason, false)));
        }
        let asked = asked_lines(&item.request, item.patch.as_deref());
        asked.iter().for_each(|line| output::note(line));
        let offer = item.request.offer.as_ref();
        if let Some(offer) = offer {
            output::note(
                "  t, s or w approve calls like it in this turn, session or workspace too:",
            );
            rule_lines(offer).iter().for_each(|line| output::note(line));
        }
        let question = match offer {
            Some(_) => "Approve this once? [y/n] (or t/s/w) ",
            None => "Approve this once? [y/n] ",
        };
        let wider = |scope| {
            let wider = Wider { scope, rule: None, lifetime_us: None, max_uses: None };
            offer.map(|_| Answer::ApproveFor(wider))
        };
        let read = |word: &str| match word {
            "y" | "yes" => Some(Answer::Approve),
            "n" | "no" => Some(Answer::Reject),
            "t" => wider(GrantScope::Turn),
            "s" => wider(GrantScope::Session),
            "w" => wider(GrantScope::Workspace),
            _ => None,
        };
        let answer = ask_for(&mut lines, question, &|| item.withdrawn.is_set(), &read);
        if item.withdrawn.is_set() {
            output::note("\nanswered elsewhere, or no longer wanted");
        }
        answer.unwrap_or(Answer::Nobody)
    }
}

/// How often a waiting question looks whether it is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What is typed, line by line. One thread reads for the whole process, so that a question can end
/// without an answer.
fn lines() -> &'static Mutex<Receiver<String>> {
    static LINES: OnceLock<Mutex<Receiver<String>>> = OnceLock::new();
    LINES.get_or_init(|| {
        let (send, receive) = channel();
        std::thread::spawn(move || {
            let typed = std::io::stdin().lock().lines().map_while(Result::ok);
            // Nobody listens once the process is about to end.
            let _ = typed.map(|line| send.send(line)).find(Result::is_err);
        });
        Mutex::new(receive)
    })
}

/// Asks the person at the terminal; `None` when the answer never comes.
pub(crate) fn ask(question: &str) -> Option<bool> {
    let mut lines = lines().lock().unwrap_or_else(PoisonError::into_inner);
    ask_for(&mut lines, question, &|| false, &|word| match word {
        "y" | "yes" => Some(true),
        "n" | "no" => Some(false),
        _ => None,
    })
}

/// Asks the person at the terminal to type a phrase, exactly; false for any other answer.
pub(crate) fn ask_phrase(question: &str, phrase: &str) -> bool {
    let mut lines = lines().lock().unwrap_or_else(PoisonError::into_inner);
    ask_for(&mut lines, question, &|| false, &|word| Some(word == phrase)).unwrap_or(false)
}

fn ask_for<T>(
    lines: &mut Receiver<String>,
    question: &str,
    withdrawn: &dyn Fn() -> bool,
    read: &dyn Fn(&str) -> Option<T>,
) -> Option<T> {
    // What was typed before the question is no answer to it.
    let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
    while lines.try_recv().is_ok() {}
    output::note_text(question);
    loop {
        match lines.recv_timeout(LOOK_EVERY) {
            Ok(line) => match read(line.trim()) {
                Some(answer) => return Some(answer),
                None => {
                    output::note("please answer with one of these letters");
                    output::note_text(question);
                }
            },
            Err(RecvTimeoutError::Timeout) if withdrawn() => return None,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// Answers from a scenario file; the first answer for a tool counts.
pub(crate) struct Scenario {
    reviews: Vec<ScriptedReview>,
}

impl Scenario {
    /// Takes the answers of a scenario.
    pub(crate) fn new(reviews: Vec<ScriptedReview>) -> Self {
        Self { reviews }
    }
}

impl Reviewer for Scenario {
    fn approver(&self) -> Actor {
        Actor { kind: PrincipalKind::User, id: "scenario".to_owned() }
    }

    fn review(&self, item: &ReviewItem) -> Answer {
        match self.reviews.iter().find(|review| review.tool == item.request.tool) {
            Some(review) if review.answer == ReviewAnswer::Approve => Answer::Approve,
            Some(_) => Answer::Reject,
            None => Answer::Nobody,
        }
    }
}
