//! A branch in memory: appends as the driver does, without log, clock or effects.

use std::collections::VecDeque;

use glasshouse_kernel::session::{Effect, State, consequences, next};
use glasshouse_model::body::{
    BlobRef, CallEnd, CallStatus, MessageReceived, ModelCompleted, ModelSettings, PolicyDecided,
    SessionCreated, TestEvidence, TestSetup, ToolStarted, TurnStarted, WorkspaceFrozen,
    WorkspaceSealed, WrittenCall,
};
use glasshouse_model::{
    Actor, Budget, CallId, Decision, Digest, Draft, Effect as PolicyEffect, Event, Header, Kind,
    Mode, PrincipalKind, Seq, State as Workflow,
};

pub(crate) struct Simulation {
    pub(crate) state: State,
    pub(crate) events: Vec<Event>,
}

pub(crate) fn blob(name: &str) -> BlobRef {
    BlobRef { blob: Digest::of(name.as_bytes()), bytes: name.len() as u64 }
}

impl Simulation {
    /// A session with an open turn and a frozen workspace.
    pub(crate) fn new(budget: Budget) -> Self {
        Self::with(budget, |_| {})
    }

    /// The same, started with something else.
    pub(crate) fn with(budget: Budget, change: impl FnOnce(&mut SessionCreated)) -> Self {
        let mut sim = Self { state: State::default(), events: Vec::new() };
        let mut created = SessionCreated {
            mode: Mode::Strict,
            project: "/project".to_owned(),
            provider: "scripted".to_owned(),
            model: "m".to_owned(),
            base_url: None,
            own_server: false,
            scenario: None,
            budget,
            test: TestSetup {
                argv: vec!["sh".to_owned(), "tests/run.sh".to_owned()],
                kind: "configured".to_owned(),
                test_globs: vec!["tests/**".to_owned()],
                source_globs: vec!["src/**".to_owned()],
                coverage: None,
            },
            policy: Vec::new(),
            max_auto_merge_lines: 500,
            settings: ModelSettings::default(),
            program_version: "0".to_owned(),
            request: None,
        };
        change(&mut created);
        sim.append(Draft::new(Kind::SessionCreated, &created));
        sim.append(Draft::new(Kind::TurnStarted, &TurnStarted::default()));
        let user = Actor { kind: PrincipalKind::User, id: "local".to_owned() };
        sim.append(
            Draft::new(Kind::MessageReceived, &MessageReceived { text: "do it".to_owned() })
                .by(user),
        );
        let frozen = WorkspaceFrozen { base: Digest::of(b"base"), files: 3, head_commit: None };
        sim.append(Draft::new(Kind::WorkspaceFrozen, &frozen));
        sim
    }

    /// Appends a draft and what follows from it; answers the kinds, in order.
    pub(crate) fn append(&mut self, draft: Draft) -> Vec<String> {
        let before = self.events.len();
        let mut queue = VecDeque::from([draft]);
        while let Some(draft) = queue.pop_front() {
            let event = Event {
                header: Header {
                    v: 1,
                    tenant: "local".parse().unwrap(),
                    session: "s_x".parse().unwrap(),
                    branch: "b_x".parse().unwrap(),
                    seq: self.state.head + 1,
                    time_us: 0,
                    kind: draft.kind,
                    actor: draft.actor,
                    cause: draft.cause,
                    trace: None,
                    labels: draft.labels,
                    body_hash: Digest::ZERO,
                },
                body: draft.body,
                prev: Digest::ZERO,
                hash: Digest::ZERO,
            };
            self.state.apply(&event);
            for implied in consequences(&self.state, &event).into_iter().rev() {
                queue.push_front(implied);
            }
            self.events.push(event);
        }
        assert_eq!(self.state.unreadable, None);
        self.events[before..].iter().map(|event| event.kind().to_string()).collect()
    }

    pub(crate) fn answer(&mut self, text: &str, calls: &[(&str, &str)]) -> Vec<CallId> {
        let before = self.state.open_calls.clone();
        let calls = calls.iter().enumerate().map(|(n, (tool, arguments))| WrittenCall {
            masked: false,
            id: format!("t{n}"),
            tool: (*tool).to_owned(),
            arguments: (*arguments).to_owned(),
        });
        let body = ModelCompleted {
            ordinal: self.state.ordinal,
            text: text.to_owned(),
            reasoning: String::new(),
            calls: calls.collect(),
            finish: "stop".to_owned(),
            tokens: [("output".to_owned(), 10)].into(),
            raw: blob("raw"),
            duration_us: 5,
            carry: None,
            cost_micros: None,
            summary: false,
        };
        self.append(Draft::new(Kind::ModelCompleted, &body));
        self.state.open_calls.difference(&before).copied().collect()
    }

    pub(crate) fn decide(&mut self, call: CallId, effect: PolicyEffect) -> Vec<String> {
        let body = PolicyDecided {
            call: Some(call),
            syscall: "fs.write".to_owned(),
            subject: None,
            state: None,
            args_digest: Some(Digest::of(b"args")),
            input: None,
            decision: Decision {
                effect,
                rules: Vec::new(),
                reasons: vec!["because".to_owned()],
                policy_version: Digest::of(b"policy"),
                constraints: glasshouse_model::Constraints::default(),
            },
        };
        self.append(Draft::new(Kind::PolicyDecided, &body))
    }

    pub(crate) fn start(&mut self, call: CallId) -> Vec<String> {
        let body = ToolStarted { call, isolation: "native:full".to_owned() };
        self.append(Draft::new(Kind::ToolStarted, &body))
    }

    pub(crate) fn end(&mut self, call: CallId, status: CallStatus) -> Vec<String> {
        self.end_with(call, status, "")
    }

    pub(crate) fn end_with(&mut self, call: CallId, status: CallStatus, text: &str) -> Vec<String> {
        let body = CallEnd {
            call,
            status,
            code: None,
            exit_code: None,
            duration_us: 1,
            isolation: None,
            output: None,
            text: text.to_owned(),
            truncated: false,
            background_processes: 0,
            usage: None,
            withheld: None,
        };
        self.append(Draft::new(status.kind(), &body))
    }

    /// An answer with one call that is allowed, started and completed.
    pub(crate) fn call(&mut self, tool: &str, arguments: &str) -> CallId {
        let calls = self.answer("", &[(tool, arguments)]);
        let call = calls[0];
        self.decide(call, PolicyEffect::Allow);
        self.start(call);
        self.end(call, CallStatus::Completed);
        call
    }

    pub(crate) fn seal(&mut self, name: &str, tests_changed: bool, sources_changed: bool) {
        let body = WorkspaceSealed {
            call: CallId(1),
            manifest: blob(name),
            changed: Vec::new(),
            changed_total: 0,
            tests_changed,
            sources_changed,
        };
        self.append(Draft::new(Kind::WorkspaceSealed, &body));
    }

    /// A test run that the kernel made on what is sealed.
    pub(crate) fn test_run(&mut self, ran: bool, passed: bool) {
        let calls = self.answer("", &[("test.run", "{}")]);
        let call = calls[0];
        self.decide(call, PolicyEffect::Allow);
        self.start(call);
        let seal = self.state.seal.clone();
        let body = TestEvidence {
            earlier_exit_code: None,
            coverage: None,
            call,
            passed,
            ran,
            exit_code: i32::from(!passed),
            tests: Digest::of(b"tests"),
            sources: Digest::of(b"sources"),
            tests_changed: seal.as_ref().is_some_and(|seal| seal.tests_changed),
            sources_changed: seal.as_ref().is_some_and(|seal| seal.sources_changed),
        };
        self.append(Draft::new(Kind::TestEvidence, &body));
        self.end(call, CallStatus::Completed);
    }

    pub(crate) fn workflow(&self) -> Workflow {
        self.state.workflow()
    }

    pub(crate) fn next(&self) -> Vec<Effect> {
        next(&self.state)
    }

    pub(crate) fn count(&self, kind: &Kind) -> usize {
        self.events.iter().filter(|event| event.kind() == kind).count()
    }

    pub(crate) fn last_seq(&self, kind: &Kind) -> Seq {
        self.events.iter().rev().find(|event| event.kind() == kind).map_or(0, Event::seq)
    }
}
