//! Decisions on what is not so: on other calls, and under other rules.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use glasshouse_model::{Call, Decision, Effect};

use crate::command::Seen;
use crate::decide::{Request, Supposed, decide_supposing};
use crate::extension::{Extension, ExtensionError, ExtensionText, Opinion};
use crate::limits::MAX_TRIED_BY_EXTENSION;
use crate::policy::Policy;

type Said = Result<Option<Opinion>, ExtensionError>;

/// One request, ready to be decided as if something were different.
pub(super) struct Trial<'a> {
    policy: &'a Policy,
    request: Request<'a>,
    /// What was read of the request's command.
    seen: Seen,
    extension: Option<Asked<'a>>,
}

impl<'a> Trial<'a> {
    pub(super) fn new(policy: &'a Policy, request: &Request<'a>) -> Self {
        let extension = request.extension.or_else(|| policy.serving());
        // Where there is no program, nobody would say anything about any call.
        let is_program = !policy.extensions().is_empty();
        let extension = extension.filter(|inner| is_program || inner.knows_other_calls());
        let extension = extension.map(|inner| Asked::new(inner, request.call));
        Self { policy, request: *request, seen: Seen::default(), extension }
    }

    pub(super) const fn call(&self) -> &'a Call {
        self.request.call
    }

    pub(super) const fn seen(&self) -> &Seen {
        &self.seen
    }

    /// The decision itself.
    pub(super) fn decision(&self) -> Decision {
        self.decide(&self.request, &Supposed::default(), &self.seen)
    }

    /// The answer under other rules.
    pub(super) fn under(&self, supposed: &Supposed<'_>) -> Option<Effect> {
        self.known(&self.request, supposed, &self.seen)
    }

    /// The answer to another call, presented with nothing.
    pub(super) fn of_call(&self, call: &Call) -> Option<Effect> {
        let request = Request { call, token: None, approval: None, standing: None, ..self.request };
        // Thousands of calls are tried, and few of them run another command.
        let other = Seen::default();
        let seen = if call.argv == self.call().argv { &self.seen } else { &other };
        self.known(&request, &Supposed::default(), seen)
    }

    /// Whether an answer was left out because a program would have had to be asked.
    pub(super) fn left_out(&self) -> bool {
        self.extension.as_ref().is_some_and(|asked| asked.left_out.get())
    }

    /// The answer, where no program had to be asked in vain: its silence is no answer.
    fn known(&self, request: &Request<'_>, supposed: &Supposed<'_>, seen: &Seen) -> Option<Effect> {
        let effect = self.decide(request, supposed, seen).effect;
        let in_vain = self.extension.as_ref().is_some_and(|asked| asked.in_vain.take());
        (!in_vain).then_some(effect)
    }

    fn decide(&self, request: &Request<'_>, supposed: &Supposed<'_>, seen: &Seen) -> Decision {
        let extension = self.extension.as_ref().map(|asked| asked as &dyn Extension);
        let request = Request { extension, ..*request };
        decide_supposing(self.policy, &request, supposed, seen).decision
    }
}

/// Programs that are asked once about the call, and about few others: an explanation is no reason to
/// run one a thousand times, and what it says after a fault says nothing about a call.
struct Asked<'a> {
    inner: &'a dyn Extension,
    own: &'a Call,
    /// What was said about the call, each by the position of the source that the program is in.
    said: RefCell<BTreeMap<Option<usize>, Said>>,
    /// How often one may still be asked about other calls.
    left: Cell<usize>,
    /// Whether it could not be asked about the call in hand.
    in_vain: Cell<bool>,
    left_out: Cell<bool>,
}

impl<'a> Asked<'a> {
    fn new(inner: &'a dyn Extension, own: &'a Call) -> Self {
        let most = if inner.knows_other_calls() { MAX_TRIED_BY_EXTENSION } else { 0 };
        Self {
            inner,
            own,
            said: RefCell::default(),
            left: Cell::new(most),
            in_vain: Cell::new(false),
            left_out: Cell::new(false),
        }
    }
}

impl Extension for Asked<'_> {
    fn evaluate(&self, program: Option<&ExtensionText>, call: &Call) -> Said {
        if call == self.own {
            let first = || self.inner.evaluate(program, call).inspect_err(|_| self.left.set(0));
            let place = program.map(|program| program.position);
            return self.said.borrow_mut().entry(place).or_insert_with(first).clone();
        }
        if let Some(left) = self.left.get().checked_sub(1) {
            self.left.set(left);
            match self.inner.evaluate(program, call) {
                Ok(said) => return Ok(said),
                Err(_) => self.left.set(0),
            }
        }
        self.in_vain.set(true);
        self.left_out.set(true);
        Ok(None)
    }

    fn restart(&self, program: Option<&ExtensionText>) -> bool {
        self.inner.restart(program)
    }
}
