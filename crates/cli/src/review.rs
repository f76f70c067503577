//! Who approves: the person at the terminal, a scenario's script, or nobody.

use std::io::{BufRead, IsTerminal};

use glasshouse_kernel::{Answer, ReviewItem, Reviewer};
use glasshouse_model::{Actor, PrincipalKind};
use glasshouse_provider::{ReviewAnswer, ScriptedReview};

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
        output::note(&format!(
            "\nApproval {} is wanted for {}:",
            item.approval,
            visible(&item.request.tool, false)
        ));
        for reason in &item.request.reasons {
            output::note(&format!("  because {}", visible(reason, false)));
        }
        for line in item.request.shown.lines() {
            output::note(&format!("  | {}", visible(line, false)));
        }
        if let Some(patch) = &item.patch {
            for line in patch.lines() {
                output::note(&format!("  | {}", visible(line, false)));
            }
        }
        match ask("Approve this once? [y/n] ") {
            Some(true) => Answer::Approve,
            Some(false) => Answer::Reject,
            None => Answer::Nobody,
        }
    }
}

/// Asks the person at the terminal; `None` when the answer never comes.
pub(crate) fn ask(question: &str) -> Option<bool> {
    // What was typed before the question is no answer to it.
    let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
    loop {
        output::note_text(question);
        let mut line = String::new();
        match std::io::stdin().lock().read_line(&mut line) {
            Ok(0) | Err(_) => return None,
            Ok(_) => match line.trim() {
                "y" | "yes" => return Some(true),
                "n" | "no" => return Some(false),
                _ => output::note("please answer y or n"),
            },
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
