//! A question is closed once: by the answer that is stored first, or by the end of its time. Never by both.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use glasshouse_kernel::driver::{ApprovalName, Elsewhere, ReviewItem};
use glasshouse_kernel::{Answer, Cancel, Kernel, Reviewer};
use glasshouse_log::{Append, CellWrite, NewBranch};
use glasshouse_model::body::{ApprovalAnswered, ApprovalResolved};
use glasshouse_model::{
    Actor, BranchId, Draft, Event, Kind, Principal, PrincipalKind, Seq, SessionId, TenantId,
};

use crate::harness::{Place, assert_each_ended_once, scripted};
use crate::reviews::asking_project;

/// How long a question waits in the races.
const LIMIT: Duration = Duration::from_millis(600);
/// How long before that the earliest answers come.
const EARLY: Duration = Duration::from_millis(60);
/// Questions of one race.
const QUESTIONS: usize = 6;

fn ada() -> Principal {
    Principal::new(PrincipalKind::User, "ada", TenantId::local())
}

fn kernel(place: &Place) -> Arc<Kernel> {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_glasshouse"));
    Arc::new(Kernel::open(&place.home(), program).unwrap())
}

/// Reads `ask1.txt` to `askN.txt` at once, each of which a person is asked about. Answers the branch.
fn read_all(place: &Place, kernel: &Kernel, reviewer: Arc<dyn Reviewer>, count: usize) -> BranchId {
    let project = asking_project(place);
    let calls: Vec<String> = (1..=count)
        .map(|n| format!("{{ call: {{ id: c{n}, tool: fs.read, args: {{ path: ask{n}.txt }} }} }}"))
        .collect();
    let scenario = format!(
        "version: 1\nsteps:\n  - emit: [ {} ]\n  - emit: [ {{ text: done }} ]\n",
        calls.join(", ")
    );
    let new = scripted(&project, &scenario, reviewer);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut session = kernel.start(new).await.unwrap();
        session.turn(Some("look"), &Cancel::new().unwrap()).await.unwrap();
        session.branch().clone()
    })
}

/// Answers of other processes that are stored, by their question.
fn stored_answers(kernel: &Kernel, branch: &BranchId) -> Vec<ApprovalAnswered> {
    let log = kernel.log();
    let mut all: Vec<Event> = Vec::new();
    for row in log.sessions().unwrap() {
        all.extend(log.read(&row.main, 1, 100_000).unwrap());
    }
    let answers = all.iter().filter(|event| *event.kind() == Kind::ApprovalAnswered);
    let answers = answers.map(|event| event.body_as::<ApprovalAnswered>().unwrap());
    answers.filter(|answer| answer.branch == *branch).collect()
}

fn resolved(kernel: &Kernel, branch: &BranchId) -> Vec<ApprovalResolved> {
    let events = kernel.log().read(branch, 1, 100_000).unwrap();
    assert_each_ended_once(&events);
    let ends = events.iter().filter(|event| *event.kind() == Kind::ApprovalResolved);
    ends.map(|event| event.body_as().unwrap()).collect()
}

/// Somebody answers in another process while this one is about to say something else.
struct Overtaken {
    kernel: Arc<Kernel>,
    first: Answer,
    second: Answer,
}

impl Reviewer for Overtaken {
    fn approver(&self) -> Actor {
        ada().actor()
    }

    fn review(&self, _: &ReviewItem) -> Answer {
        let name = self.kernel.pending_approvals().unwrap().remove(0).approval;
        self.kernel.answer_approval(&name, self.first.clone(), None, &ada()).unwrap();
        self.second.clone()
    }
}

/// In the instant in which nobody waits any more, or the person here says something, an answer of another
/// process is stored. That one was told that it counts, so it does.
#[test]
fn f14_the_answer_that_is_stored_first_counts() {
    let check = |first: Answer, second: Answer, code: &str| {
        let place = Place::new();
        let kernel = kernel(&place);
        let reviewer =
            Overtaken { kernel: Arc::clone(&kernel), first: first.clone(), second: second.clone() };
        let branch = read_all(&place, &kernel, Arc::new(reviewer), 1);
        let ends = resolved(&kernel, &branch);
        let codes: Vec<&str> = ends.iter().map(|end| end.code.as_str()).collect();
        assert_eq!(codes, [code], "{first:?}, then {second:?}");
        assert_eq!(stored_answers(&kernel, &branch).len(), 1);
    };
    check(Answer::Approve, Answer::Nobody, "approved");
    check(Answer::Reject, Answer::Nobody, "rejected");
    check(Answer::Approve, Answer::Reject, "approved");
    check(Answer::Reject, Answer::Approve, "rejected");
}

/// Says nothing until its time is over, and answers nobody.
struct Silent;

impl Reviewer for Silent {
    fn approver(&self) -> Actor {
        ada().actor()
    }

    fn review(&self, _: &ReviewItem) -> Answer {
        Answer::Nobody
    }
}

/// Whoever has looked at a question before it was closed, and answers after that, is refused by the log
/// itself: the place of the answer is taken. The control: the place of another question is free.
#[test]
fn f14_no_answer_is_stored_behind_the_end_of_a_question() {
    let place = Place::new();
    let kernel = kernel(&place);
    let branch = read_all(&place, &kernel, Arc::new(Silent), 1);
    let ends = resolved(&kernel, &branch);
    assert_eq!(ends.iter().map(|end| end.code.as_str()).collect::<Vec<_>>(), ["no_approver"]);
    let store = |seq: Seq| {
        let random = [u8::try_from(seq % 200).unwrap(); 8];
        let (session, own) = (SessionId::from_random(random), BranchId::from_random(random));
        let log = kernel.log();
        log.create_branch(NewBranch {
            session: session.clone(),
            branch: own.clone(),
            name: "main".to_owned(),
            parent: None,
        })
        .unwrap();
        let said = serde_json::json!({ "said": seq });
        let mut append = Append::new(session, own, vec![Draft::new(Kind::Heartbeat, &said)]);
        append.cells = vec![CellWrite {
            space: "approval.answers".to_owned(),
            key: ApprovalName { branch: branch.clone(), seq }.to_string(),
            // As every answer is stored: where there is none yet.
            expected_version: Some(0),
            bytes: Some(b"{}".to_vec()),
        }];
        log.append(append).map(drop)
    };
    let late = store(ends[0].approval).unwrap_err();
    assert_eq!(late.code(), "cell_conflict");
    store(ends[0].approval + 1).unwrap();
    let name = ApprovalName { branch: branch.clone(), seq: ends[0].approval };
    let refused = kernel.answer_approval(&name, Answer::Approve, None, &ada()).unwrap_err();
    assert_eq!(refused.code(), "approval_unknown");
}

/// Answers each question in the moment in which its time ends; keeps which of them were taken.
fn answer_at(
    kernel: Arc<Kernel>,
    ends: Instant,
    offset: Duration,
) -> JoinHandle<Vec<(ApprovalName, bool)>> {
    std::thread::spawn(move || {
        let mut names = Vec::new();
        while names.len() < QUESTIONS && Instant::now() < ends + LIMIT {
            names =
                kernel.pending_approvals().unwrap().into_iter().map(|one| one.approval).collect();
        }
        std::thread::sleep((ends + offset - EARLY).saturating_duration_since(Instant::now()));
        names
            .into_iter()
            .map(|name| {
                let told = kernel.answer_approval(&name, Answer::Approve, None, &ada());
                let refused = ["approval_unknown", "approval_answered"];
                assert!(told.as_ref().err().is_none_or(|error| refused.contains(&error.code())));
                (name, told.is_ok())
            })
            .collect()
    })
}

/// What a race of answers comes to: each question, and whether an answer counted.
type Race = JoinHandle<Vec<(ApprovalName, bool)>>;

/// A reviewer in another process that starts the race when the first question comes.
struct Racing {
    kernel: Arc<Kernel>,
    offset: Duration,
    racer: Mutex<Option<Race>>,
}

impl Reviewer for Racing {
    fn approver(&self) -> Actor {
        Elsewhere { limit: LIMIT }.approver()
    }

    fn review(&self, _: &ReviewItem) -> Answer {
        Answer::Nobody
    }

    fn elsewhere(&self) -> Option<Duration> {
        self.racer.lock().unwrap().get_or_insert_with(|| {
            answer_at(Arc::clone(&self.kernel), Instant::now() + LIMIT, self.offset)
        });
        Some(LIMIT)
    }
}

/// Six questions whose time ends while they are answered: each is answered and runs, or has expired and its
/// answer was refused; one event says so, whatever came first.
#[test]
fn f14_racing_answers_meet_the_instant_of_expiry() {
    let rounds = if std::env::var_os("GLASSHOUSE_SOAK").is_some() { 60_u64 } else { 2 };
    let (mut asked, mut taken) = (0, 0);
    for round in 0..rounds {
        let place = Place::new();
        let kernel = kernel(&place);
        // The owner looks five times a second, so its instant is somewhere in the fifth behind the limit.
        let offset = Duration::from_millis(round * 73 % 260);
        let racing =
            Arc::new(Racing { kernel: Arc::clone(&kernel), offset, racer: Mutex::default() });
        let reviewer: Arc<dyn Reviewer> = Arc::<Racing>::clone(&racing);
        let branch = read_all(&place, &kernel, reviewer, QUESTIONS);
        let told = racing.racer.lock().unwrap().take().unwrap().join().unwrap();
        let ends = resolved(&kernel, &branch);
        assert_eq!(ends.len(), QUESTIONS);
        let stored = stored_answers(&kernel, &branch);
        asked += ends.len();
        for end in &ends {
            let answered = stored.iter().filter(|answer| answer.approval == end.approval).count();
            let accepted = told.iter().filter(|(name, ok)| name.seq == end.approval && *ok).count();
            let expected = usize::from(end.code == "approved");
            assert_eq!((answered, accepted), (expected, expected), "{}: {told:?}", end.code);
            assert!(end.approved || end.code == "no_approver", "{}", end.code);
            taken += expected;
        }
        let events = kernel.log().read(&branch, 1, 100_000).unwrap();
        let ran = events.iter().filter(|event| *event.kind() == Kind::ToolCompleted).count();
        assert_eq!(ran, ends.iter().filter(|end| end.approved).count());
    }
    eprintln!("{taken} of {asked} were answered in time");
}
