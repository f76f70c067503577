//! The turns that run in this process. Everything else about them is in the log.
//!
//! A turn has a thread of its own: its files, its commands and its storage may take their time there. It is the
//! branch's only writer for as long as it runs, and it goes on whoever listens or leaves.

mod founding;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use glasshouse_kernel::driver::{ApprovalName, Steering};
use glasshouse_kernel::{Cancel, Config, Elsewhere, Kernel, Notice, Observer};
use glasshouse_log::BranchRow;
use glasshouse_model::body::NamedRequest;
use glasshouse_model::{BranchId, Kind, Principal, Seq, SessionId, TenantId};

pub(crate) use self::founding::New;
use crate::chat::{Live, Speaker};
use crate::faults::Faults;
use crate::models::{Connected, Models, Settings, Wanted};
use crate::pool::Meter;
use crate::problem::{Problem, RETRY_AFTER_S};
use crate::{Error, Result, codes};

/// Most turns that run at a time.
const MAX_RUNNING_TURNS: usize = 128;
/// Most questions for plans that run at a time.
const MAX_RUNNING_QUESTIONS: usize = 32;
/// How long a turn that is over may take to put away what it used.
const CLEARING_WITHIN: Duration = Duration::from_secs(10);
/// How long turns that were stopped may take to end.
const CANCELLED_WITHIN: Duration = Duration::from_secs(15);
/// When a server that stops may be there again, in seconds.
const STOPPING_RETRY_S: u64 = 10;
/// How long a question waits for its answer, which comes by another request.
const ANSWER_WITHIN: Duration = Duration::from_secs(15 * 60);

/// A turn of this process.
struct Running {
    /// The request that started it, where its sender named it.
    request: Option<NamedRequest>,
    /// Its `turn.started`, once that is stored.
    turn: Option<Seq>,
    cancel: Cancel,
    /// Whether somebody stopped it.
    is_stopped: bool,
    /// Its session, and where one may speak to it, once it has begun.
    session: SessionId,
    steering: Option<Steering>,
}

/// What goes on when something is about to begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ahead {
    /// Turns that have a place, and questions for plans.
    pub(crate) running: usize,
    /// Those of them whose turn is not in the log yet.
    pub(crate) starting: usize,
}

/// What there is to do on a branch.
pub(crate) struct Task {
    /// Where.
    pub(crate) branch: BranchRow,
    /// What a person says; without it the last turn is carried on.
    pub(crate) message: Option<String>,
    /// The request, where its sender named it.
    pub(crate) request: Option<NamedRequest>,
    /// Who asks.
    pub(crate) by: Principal,
}

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done<T> {
    /// It was made.
    Now(T),
    /// The same request had made it before.
    Before(T),
}

impl<T> Done<T> {
    /// What was made, and whether that was before.
    pub(crate) fn into_parts(self) -> (T, bool) {
        match self {
            Self::Now(made) => (made, false),
            Self::Before(made) => (made, true),
        }
    }
}

/// Runs turns.
pub(crate) struct Desk {
    kernel: Arc<Kernel>,
    models: Arc<dyn Models>,
    runtime: tokio::runtime::Handle,
    running: Mutex<HashMap<BranchId, Running>>,
    /// Questions for plans that run; changed while `running` is held.
    questions: AtomicUsize,
    /// Told when a turn begins or ends.
    changed: Condvar,
    is_closed: AtomicBool,
    /// Held while a named request starts a session: the same one waits for it.
    founding: Mutex<()>,
    meter: Meter,
    live: Live,
    faults: Faults,
}

/// Tells the sequence of a turn's first event as soon as it is stored.
struct Announce(Mutex<Option<mpsc::SyncSender<Result<Seq>>>>, Arc<Desk>, BranchId, Speaker);

impl Announce {
    /// False where it was told before.
    fn tell(&self, started: Result<Seq>) -> bool {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(waiting) = waiting else { return false };
        if let (Ok(seq), Some(running)) = (&started, self.1.lock().get_mut(&self.2)) {
            running.turn = Some(*seq);
            self.1.changed.notify_all();
        }
        // Whoever asked may have left; the turn runs all the same.
        let _ = waiting.send(started);
        true
    }
}

impl Observer for Announce {
    fn notice(&self, notice: Notice<'_>) {
        self.3.notice(notice);
        if let Notice::Event(event) = notice
            && *event.kind() == Kind::TurnStarted
        {
            self.tell(Ok(event.seq()));
        }
    }
}

impl Desk {
    /// An empty desk; must be called within the runtime that turns use.
    pub(crate) fn new(kernel: Arc<Kernel>, models: Arc<dyn Models>, faults: Faults) -> Self {
        Self {
            kernel,
            models,
            runtime: tokio::runtime::Handle::current(),
            running: Mutex::default(),
            questions: AtomicUsize::new(0),
            changed: Condvar::new(),
            is_closed: false.into(),
            founding: Mutex::default(),
            meter: Meter::default(),
            live: Live::default(),
            faults,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<BranchId, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the answers of running turns say before it is stored.
    pub(crate) const fn live(&self) -> &Live {
        &self.live
    }

    /// Connects to the model of a project, for a question outside any session.
    ///
    /// # Errors
    /// As [`Models`].
    pub(crate) fn connect(
        &self,
        asked: glasshouse_kernel::Config,
        project: &Path,
        scenario: Option<&str>,
    ) -> Result<Connected> {
        let settings = self.models.settings(asked, project)?;
        self.model(Wanted {
            provider: settings.config.provider.as_deref(),
            base_url: settings.config.base_url.as_deref(),
            model: settings.config.model.as_deref(),
            scenario: scenario.map(str::as_bytes),
            own_server: settings.own_server,
        })
    }

    /// Sets a model up. Of a tenant's project no file names its server: this host would go there, and tell
    /// what it found.
    ///
    /// # Errors
    /// `tenant_restricted`; as [`Models::connect`].
    pub(super) fn model(&self, wanted: Wanted<'_>) -> Result<Connected> {
        let is_tenant = *self.kernel.log().tenant() != TenantId::local();
        if is_tenant && !wanted.own_server && wanted.base_url.is_some() {
            let what = "the project's configuration names a server for a model";
            return Err(Error::new(codes::TENANT_RESTRICTED, what)
                .why("whoever runs the server chooses where a tenant's models are")
                .fix("take `base_url` out of the project's `.glasshouse/config.yaml`"));
        }
        self.models.connect(wanted)
    }

    /// Lets something asynchronous go on by itself.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Waits for what is asynchronous.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// How many turns run, questions for plans counted as such.
    pub(crate) fn running(&self) -> usize {
        self.ahead().running
    }

    /// What goes on now.
    pub(crate) fn ahead(&self) -> Ahead {
        self.ahead_of(&self.lock())
    }

    fn ahead_of(&self, running: &HashMap<BranchId, Running>) -> Ahead {
        let starting = running.values().filter(|running| running.turn.is_none()).count();
        let questions = self.questions.load(Ordering::SeqCst);
        Ahead { running: running.len() + questions, starting }
    }

    /// Takes a place for a question for a plan. `room` says whether there is some beside what goes on.
    ///
    /// # Errors
    /// `server_busy`, `server_stopping`; as `room`.
    pub(crate) fn take_question(
        self: &Arc<Self>,
        room: impl FnOnce(Ahead) -> Result<()>,
    ) -> Result<Question> {
        let running = self.lock();
        self.check_open()?;
        let questions = self.questions.load(Ordering::SeqCst);
        if questions >= MAX_RUNNING_QUESTIONS {
            return Err(self.meter.busy(questions, MAX_RUNNING_QUESTIONS));
        }
        let ahead = self.ahead_of(&running);
        self.questions.fetch_add(1, Ordering::SeqCst);
        drop(running);
        let question = Question(Arc::clone(self));
        room(ahead)?;
        Ok(question)
    }

    /// Whether turns are taken.
    ///
    /// # Errors
    /// `server_stopping`.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(Error::new(codes::SERVER_STOPPING, "no turn can be started now")
                .with(RETRY_AFTER_S, STOPPING_RETRY_S));
        }
        Ok(())
    }

    /// The configuration that applies to a project.
    ///
    /// # Errors
    /// As [`Models::settings`].
    pub(crate) fn settings(&self, asked: Config, project: &Path) -> Result<Settings> {
        self.models.settings(asked, project)
    }

    /// Refuses while a turn of a session runs here.
    ///
    /// # Errors
    /// `turn_running`.
    pub(crate) fn check_idle(&self, session: &SessionId) -> Result<()> {
        let is_its = |running: &&Running| running.session == *session;
        let (running, _) = self
            .changed
            .wait_timeout_while(self.lock(), CLEARING_WITHIN, |running| {
                // One that is over puts away what it used; that takes a moment.
                let is_over = |branch: &BranchId, running: &Running| {
                    let now = self.kernel.state_of(branch).ok().and_then(|state| state.turn);
                    running.turn.is_some() && now != running.turn
                };
                let mut its = running.iter().filter(|(_, running)| running.session == *session);
                its.clone().count() > 0 && its.all(|(branch, running)| is_over(branch, running))
            })
            .unwrap_or_else(PoisonError::into_inner);
        match running.values().find(is_its) {
            Some(running) => Err(turn_running(running)),
            None => Ok(()),
        }
    }

    /// Refuses a turn of a session that was deleted: nothing of what it said is there.
    fn check_kept(&self, session: &SessionId) -> Result<()> {
        if !self.kernel.log().is_forgotten(session)? {
            return Ok(());
        }
        let what = format!("session {session} was deleted");
        Err(Error::new(glasshouse_log::codes::SESSION_ARCHIVED, what)
            .why("its bodies were erased")
            .fix("start another session"))
    }

    /// Refuses a turn of a branch whose session waits for an answer about its mode: what comes first is that
    /// answer, and no request is held for it.
    fn check_mode(&self, branch: &BranchId) -> Result<()> {
        let Some(seq) = self.kernel.state_of(branch)?.mode_question() else { return Ok(()) };
        let name = ApprovalName { branch: branch.clone(), seq };
        match self.kernel.pending_approval(&name) {
            Ok(pending) if !pending.answered => {
                Err(Error::new(codes::MODE_UNDECIDED, "the session's mode is not decided yet")
                    .why(format!("the approval {name} waits for a person"))
                    .with("approval", name.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Starts a turn and answers its sequence once its first event is durable. A named request that was
    /// made before answers the turn that it started.
    ///
    /// # Errors
    /// `key_reused`, `turn_running`, `server_busy`, `server_stopping`; as `room`, which is asked for what has not
    /// been begun before; as [`Kernel::resume`] and [`Models`].
    pub(crate) fn start(
        self: &Arc<Self>,
        task: Task,
        room: impl FnOnce(Ahead) -> Result<()>,
    ) -> Result<Done<Seq>> {
        let branch = task.branch.branch.clone();
        let here = branch.clone();
        self.check_kept(&task.branch.session)?;
        self.check_mode(&branch)?;
        let cancel = Cancel::new()?;
        let ahead = match self.take_place(&task, cancel.clone())? {
            Taken::Before(turn) => return Ok(Done::Before(turn)),
            Taken::Now(ahead) => ahead,
        };
        // Not while the desk is held: counting may read a log. The place is taken, so of many at once each
        // counts those before it.
        if let Err(error) = room(ahead) {
            drop(Place { desk: self, branch: &here });
            return Err(error);
        }
        let (sender, started) = mpsc::sync_channel(1);
        let desk = Arc::clone(self);
        let run = move || {
            let began = Instant::now();
            let speaker = desk.live.begin(&branch);
            let sender = Mutex::new(Some(sender));
            let announce = Arc::new(Announce(sender, Arc::clone(&desk), branch.clone(), speaker));
            let place = Place { desk: &desk, branch: &branch };
            let ran = desk.run(&task, &announce, &cancel);
            desk.meter.took(began.elapsed());
            drop(place);
            // A turn that began has told so; what went wrong later is in the log, unless that is what went wrong.
            let failed = ran.clone().err();
            if !announce.tell(ran.and_then(|()| Err(ended_early())))
                && let Some(error) = failed
            {
                desk.faults.tell(&Problem::of(error), None);
            }
        };
        std::thread::Builder::new().name("turn".to_owned()).spawn(run).map_err(|e| {
            drop(Place { desk: self, branch: &here });
            Error::new(codes::SERVER_FAILED, "no thread is left for a turn").why(e)
        })?;
        started.recv().map_err(|_| ended_early())?.map(Done::Now)
    }

    /// The turn that the same request started.
    ///
    /// # Errors
    /// `key_reused`; what reading the log answers.
    pub(crate) fn started_before(
        &self,
        branch: &BranchId,
        request: Option<&NamedRequest>,
    ) -> Result<Option<Seq>> {
        let Some(asked) = request else { return Ok(None) };
        match self.kernel.state_of(branch)?.requests.get(&asked.key) {
            None => Ok(None),
            Some((turn, digest)) if *digest == asked.digest => Ok(Some(*turn)),
            Some(_) => Err(reused(asked)),
        }
    }

    /// Takes the branch for a turn, and tells what goes on already; or the turn that the same request started
    /// before.
    fn take_place(&self, task: &Task, cancel: Cancel) -> Result<Taken> {
        let branch = &task.branch.branch;
        let mut running = self.wait_for_place(task)?;
        self.check_open()?;
        if let Some(other) = running.get(branch) {
            if let (Some(asked), Some(known)) = (&task.request, &other.request)
                && let Some(turn) = other.turn
                && known.key == asked.key
            {
                return if known == asked { Ok(Taken::Before(turn)) } else { Err(reused(asked)) };
            }
            return Err(turn_running(other));
        }
        if let Some(turn) = self.started_before(branch, task.request.as_ref())? {
            return Ok(Taken::Before(turn));
        }
        if running.len() >= MAX_RUNNING_TURNS {
            return Err(self.meter.busy(running.len(), MAX_RUNNING_TURNS));
        }
        let request = task.request.clone();
        let (session, steering) = (task.branch.session.clone(), None);
        let new = Running { request, turn: None, cancel, is_stopped: false, session, steering };
        let ahead = self.ahead_of(&running);
        running.insert(branch.clone(), new);
        Ok(Taken::Now(ahead))
    }

    /// Waits for what is over in a moment: a turn that ended puts away what it used, and the same request
    /// may be about to begin its turn.
    fn wait_for_place(&self, task: &Task) -> Result<MutexGuard<'_, HashMap<BranchId, Running>>> {
        let branch = &task.branch.branch;
        let running = self.lock();
        let Some(other) = running.get(branch) else { return Ok(running) };
        let is_over = other.turn.is_some() && self.kernel.state_of(branch)?.turn != other.turn;
        let waited = self.changed.wait_timeout_while(running, CLEARING_WITHIN, |running| {
            let other = running.get(branch);
            other.is_some_and(|other| match other.turn {
                Some(_) => is_over,
                None => task.request.is_some() && other.request == task.request,
            })
        });
        Ok(waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    fn run(&self, task: &Task, announce: &Arc<Announce>, cancel: &Cancel) -> Result<()> {
        let (session, branch) = (&task.branch.session, &task.branch.branch);
        if self.kernel.is_imported(session)? {
            return Err(imported(session));
        }
        let created = self.kernel.state_to_act_on(branch)?.created.ok_or_else(|| {
            let what = format!("session {session} was never started");
            Error::new(glasshouse_kernel::codes::SESSION_NOT_FOUND, what)
        })?;
        let blob = created.scenario.as_ref();
        let scenario = blob.map(|blob| self.kernel.log().blob(&blob.blob)).transpose()?;
        let Connected { provider, secrets, .. } = self.model(Wanted {
            provider: Some(&created.provider),
            base_url: created.base_url.as_deref(),
            model: Some(&created.model),
            scenario: scenario.as_deref(),
            own_server: created.own_server,
        })?;
        self.runtime.block_on(async {
            let mut session = self
                .kernel
                .resume(
                    session,
                    Some(branch.clone()),
                    provider,
                    Arc::new(Elsewhere { limit: ANSWER_WITHIN }),
                    Arc::clone(announce) as Arc<dyn Observer>,
                    secrets,
                )
                .await?;
            if let Some(running) = self.lock().get_mut(branch) {
                running.steering = Some(session.steering());
            }
            let request = task.request.clone();
            session.turn_of(task.message.as_deref(), request, Some(&task.by), cancel).await?;
            Ok(())
        })
    }

    /// Says something to a turn that runs here.
    ///
    /// # Errors
    /// `turn_not_running`; as [`Steering::say`].
    pub(crate) fn steer(
        &self,
        branch: &BranchId,
        turn: Seq,
        text: &str,
        by: &Principal,
    ) -> Result<()> {
        let found = self
            .lock()
            .get(branch)
            .filter(|found| found.turn == Some(turn))
            .map(|found| found.steering.clone());
        match found.flatten() {
            Some(steering) if self.kernel.state_of(branch)?.turn == Some(turn) => {
                steering.say(&self.kernel, text, by)?;
                Ok(())
            }
            _ => Err(not_running(turn)),
        }
    }

    /// Asks the turn that runs on a branch to stop, and names it; only if it is this one, where one is named. Its
    /// end is an event, which names who stopped it.
    pub(crate) fn cancel(
        &self,
        branch: &BranchId,
        turn: Option<Seq>,
        by: &Principal,
    ) -> Option<Seq> {
        let mut running = self.lock();
        let found = running.get_mut(branch)?;
        if turn.is_some() && found.turn != turn {
            return None;
        }
        found.is_stopped = true;
        found.cancel.cancel_as(by.actor());
        found.turn
    }

    /// Whether somebody stopped the turn that runs on a branch: what it asked nobody answers any more.
    pub(crate) fn is_stopped(&self, branch: &BranchId) -> bool {
        self.lock().get(branch).is_some_and(|running| running.is_stopped)
    }

    /// Takes no more turns, waits a while for those that run, stops the rest, and waits for their ends. A
    /// stopped turn is carried on by the next one without a message.
    pub(crate) fn close(&self, patience: Duration) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.wait_until_idle(patience);
        for running in self.lock().values() {
            running.cancel.cancel();
        }
        self.wait_until_idle(CANCELLED_WITHIN);
    }

    fn wait_until_idle(&self, longest: Duration) {
        let running = self.lock();
        let waited = self
            .changed
            .wait_timeout_while(running, longest, |running| self.ahead_of(running).running > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// What came of taking a place.
enum Taken {
    Now(Ahead),
    Before(Seq),
}

/// A question for a plan that runs, for as long as it lives.
pub(crate) struct Question(Arc<Desk>);

impl Drop for Question {
    fn drop(&mut self) {
        let running = self.0.lock();
        self.0.questions.fetch_sub(1, Ordering::SeqCst);
        drop(running);
        self.0.changed.notify_all();
    }
}

/// The entry of a running turn; it goes also when the turn breaks down.
struct Place<'a> {
    desk: &'a Desk,
    branch: &'a BranchId,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.desk.live.end(self.branch);
        self.desk.lock().remove(self.branch);
        self.desk.changed.notify_all();
    }
}

fn reused(request: &NamedRequest) -> Error {
    let what = format!("the key `{}` names another request", request.key);
    Error::new(codes::KEY_REUSED, what)
}

/// What another log recorded does not choose the directory that an agent sees; a person does, by standing
/// in it.
fn imported(session: &SessionId) -> Error {
    let what = format!("session {session} was imported");
    Error::new(glasshouse_kernel::codes::PROJECT_UNREADABLE, what)
        .why("its file names a directory that nobody here chose")
        .fix("carry it on with `glasshouse session resume` in the project's directory")
}

fn turn_running(running: &Running) -> Error {
    let error = Error::new(codes::TURN_RUNNING, "a turn runs already");
    match running.turn {
        Some(turn) => error.with("turn", turn),
        None => error,
    }
}

pub(crate) fn not_running(turn: Seq) -> Error {
    Error::new(codes::TURN_NOT_RUNNING, format!("turn {turn} does not run here"))
}

fn ended_early() -> Error {
    Error::new(codes::SERVER_FAILED, "the turn ended before it began")
}
