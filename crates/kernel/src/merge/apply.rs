//! Doing a merge: all of it or nothing, resumable, without losing an edit the user makes meanwhile.
//!
//! Each step prepares the new file beside its place, exchanges the two names in one act of the file
//! system, and then looks at what came out. If that is not what the plan expected, the user saved in
//! between: the exchange is undone, the merge goes back step by step, and the answer is a conflict. It
//! goes back as well when anything fails. The replaced files stay beside their places until all steps
//! are done, so that going back needs no space. A crash anywhere leaves each file old or new; the next
//! call with the same operation finishes.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;

use glasshouse_model::{CanonicalPath, Digest};
use glasshouse_sandbox::workspace::Owner;
use glasshouse_sandbox::workspace::beneath::{Found, Root, WriteHow};
use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::busy::expect_free;
use super::conflict::{Conflict, ConflictKind};
use super::edits::Repository;
use super::oplog::{Cause, Fact, Operation, OperationDir, Record};
use super::place::{Place, Recovered, Undone, is};
use super::plan::{Binding, Input, Plan, Step, is_at_or_below, make};
use crate::codes;
use crate::{Error, Result};

/// On whose word a merge is made.
#[derive(Debug, Clone, Copy)]
pub enum Authority<'a> {
    /// Policy allowed it without a person. Deletions are held back.
    Automatic,
    /// A person approved a proposal; anything that is not that proposal is refused as stale.
    Reviewed {
        /// What was approved.
        binding: &'a Binding,
        /// Whether the deletions were approved too; else they are held back.
        deletions: bool,
    },
}

/// A merge that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Paths written.
    pub written: Vec<CanonicalPath>,
    /// Paths deleted.
    pub deleted: Vec<CanonicalPath>,
    /// Deletions of the change set that were held back.
    pub held_deletions: Vec<CanonicalPath>,
}

/// What [`apply`] answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Applied(Applied),
    /// Not done; the project is as the user has it.
    Conflict(Vec<Conflict>),
}

/// Most times a merge without a person is worked out again because files changed under it.
const MAX_ATTEMPTS: usize = 4;

/// Merges a change set into the project. Calling it again with the same operation finishes what a
/// crash cut off, and answers the same when nothing is left to do.
///
/// # Errors
/// `stale_review` naming the path when what was approved is not what would be merged, `head_moved`
/// when the project is on another branch than at the freeze, `repository_busy` when the commit that
/// follows could not be made, `attributes_unsupported`, `operation_invalid` when the id was used for
/// another change set, `operation_damaged`, `workspace_io`: with all of these no file is changed.
/// `merge_incomplete` names the files that could not be taken back; the same call tries it again.
pub fn apply(
    project: &Path,
    input: Input<'_>,
    authority: Authority<'_>,
    operation: &OperationDir,
) -> Result<Outcome> {
    apply_with(project, input, authority, operation, &mut |_| Ok(()))
}

/// Called before each act; a test stops there (a crash), or answers a fault as a file system would.
pub(super) type Interrupt<'a> = &'a mut dyn FnMut(&str) -> Result<()>;

pub(super) fn apply_with(
    project: &Path,
    input: Input<'_>,
    authority: Authority<'_>,
    at: &OperationDir,
    interrupt: Interrupt<'_>,
) -> Result<Outcome> {
    let set = serde_json::to_vec(input.set)
        .map_err(|e| Error::new(codes::OPERATION_DAMAGED, "cannot write the change set").why(e))?;
    let set = Digest::of(&set);
    for attempt in 1.. {
        let operation = match Operation::open(at)? {
            Some(operation) => {
                if operation.record.set != set || operation.record.project != project {
                    let what = format!("cannot use operation `{}`", at.id());
                    return Err(Error::new(codes::OPERATION_INVALID, what)
                        .why("it is the record of another merge"));
                }
                operation
            }
            None => match begin(project, input, authority, at, set, interrupt)? {
                Ok(operation) => operation,
                Err(conflicts) => return Ok(Outcome::Conflict(conflicts)),
            },
        };
        let mut run = Run::new(project, operation, interrupt)?;
        let outcome = run.finish()?;
        // Another session or the user was quicker: what is there now may well go with the change set.
        let raced = |conflict: &Conflict| conflict.kind == ConflictKind::ChangedMeanwhile;
        let again = match (&outcome, authority) {
            (Outcome::Conflict(conflicts), Authority::Automatic) => conflicts.iter().all(raced),
            _ => false,
        };
        if !again || attempt == MAX_ATTEMPTS {
            return Ok(outcome);
        }
        run.operation.discard()?;
    }
    unreachable!("the last attempt returns")
}

/// Plans, looks whether everything can be done, and records the plan; conflicts instead of it.
fn begin(
    project: &Path,
    input: Input<'_>,
    authority: Authority<'_>,
    at: &OperationDir,
    set: Digest,
    interrupt: Interrupt<'_>,
) -> Result<Result<Operation, Vec<Conflict>>> {
    let repository = Repository::of(project, input)?;
    if let Some(repository) = &repository {
        expect_same_branch(repository, input)?;
        expect_free(&repository.git, repository.head.0.as_deref())?;
    }
    let plan = match planned(project, input, repository.as_ref(), authority)? {
        Ok(plan) => plan,
        Err(conflicts) => return Ok(Err(conflicts)),
    };
    interrupt("begin")?;
    let head = repository.map(|repository| repository.head);
    Operation::begin(at, Record::new(at, project, set, head, &plan), &plan).map(Ok)
}

fn planned(
    project: &Path,
    input: Input<'_>,
    repository: Option<&Repository>,
    authority: Authority<'_>,
) -> Result<Result<Plan, Vec<Conflict>>> {
    let Authority::Reviewed { binding, deletions } = authority else {
        return make(project, input, repository, false);
    };
    // The proposal was made with deletions, so that the person saw them.
    let whole = make(project, input, repository, true)?;
    let now = whole.as_ref().ok().map(|plan| plan.binding(input.base.digest));
    if now.as_ref() != Some(binding) {
        return Err(stale(binding, now.as_ref(), whole.as_ref().err()));
    }
    if deletions { Ok(whole) } else { make(project, input, repository, false) }
}

fn stale(approved: &Binding, now: Option<&Binding>, conflicts: Option<&Vec<Conflict>>) -> Error {
    let differs = |now: &Binding| {
        let paths = approved.targets.keys().chain(now.targets.keys());
        let mut paths = paths.filter(|path| approved.targets.get(*path) != now.targets.get(*path));
        paths.next().cloned()
    };
    let path = match (now, conflicts) {
        (Some(now), _) => differs(now),
        (None, Some(conflicts)) => conflicts.first().map(|conflict| conflict.path.clone()),
        (None, None) => None,
    };
    let error = Error::new(codes::STALE_REVIEW, "the approval does not fit the merge any more");
    match path {
        Some(path) => error
            .why(format!("`{path}` changed in the project after the approval"))
            .with("path", path.as_str()),
        None => error.why("the change set is not the one that was approved"),
    }
}

/// Another branch than at the freeze is refused.
fn expect_same_branch(repository: &Repository, input: Input<'_>) -> Result<()> {
    let frozen = input.base.git.as_ref().and_then(|git| git.branch.as_ref());
    let now = repository.head.0.as_ref();
    if now == frozen {
        return Ok(());
    }
    let name = |branch: Option<&String>| branch.map_or("no branch", String::as_str).to_owned();
    Err(Error::new(codes::HEAD_MOVED, "the project is on another branch").why(format!(
        "the session began on {}, now it is {}",
        name(frozen),
        name(now)
    )))
}

/// Takes an applied merge back because the commit could not be made, or goes on doing so; answers why,
/// for the caller.
pub(super) fn take_back(
    project: &Path,
    operation: Operation,
    why: Error,
    interrupt: Interrupt<'_>,
) -> Error {
    let undone = Run::new(project, operation, interrupt).and_then(|mut run| {
        match run.operation.going_back() {
            Some(cause) => run.go_back(cause),
            None => run.turn_back(Cause::fault(&why)),
        }
    });
    undone.err().unwrap_or(why)
}

struct Run<'a> {
    root: Rc<Root>,
    owner: Option<Owner>,
    operation: Operation,
    interrupt: Interrupt<'a>,
}

/// How a step ended.
enum Ended {
    Done,
    /// The path does not hold what the plan expected.
    Unexpected(Conflict),
}

impl<'a> Run<'a> {
    fn new(project: &Path, operation: Operation, interrupt: Interrupt<'a>) -> Result<Self> {
        let root = Rc::new(Root::open(project)?);
        let owner = rustix::process::geteuid().is_root().then(|| root.owner()).transpose()?;
        Ok(Self { root, owner, operation, interrupt })
    }

    fn finish(&mut self) -> Result<Outcome> {
        if let Some(cause) = self.operation.going_back() {
            return self.go_back(cause);
        }
        if !self.operation.facts().contains(&Fact::Applied) {
            match self.go_forward() {
                Ok(None) => {}
                Ok(Some(conflict)) => return self.turn_back(Cause::Conflicts(vec![conflict])),
                Err(error) => return self.turn_back(Cause::fault(&error)),
            }
        }
        let of = |wanted: bool| -> Vec<_> {
            let steps = self.operation.record.steps.iter();
            steps.filter(|s| s.after.is_some() == wanted).map(|s| s.path.clone()).collect()
        };
        Ok(Outcome::Applied(Applied {
            written: of(true),
            deleted: of(false),
            held_deletions: self.operation.record.held.clone(),
        }))
    }

    /// Does every step that is not done yet. A path that does not hold what the plan expected ends it.
    fn go_forward(&mut self) -> Result<Option<Conflict>> {
        let done = self.operation.done();
        for number in 0..self.operation.record.steps.len() {
            if done.contains(&number) {
                continue;
            }
            let step = self.operation.record.steps[number].clone();
            if let Ended::Unexpected(conflict) = self.perform(&step, number, Way::Forward)? {
                return Ok(Some(conflict));
            }
            (self.interrupt)("note done")?;
            self.operation.note(Fact::Done(number))?;
        }
        if let Some(conflict) = self.written_meanwhile()? {
            return Ok(Some(conflict));
        }
        self.let_go()?;
        self.prune()?;
        (self.interrupt)("note applied")?;
        self.operation.note(Fact::Applied)?;
        Ok(None)
    }

    /// A program that had a file open may still write into it after the file was taken out: those bytes
    /// are the user's, so the merge goes back.
    fn written_meanwhile(&mut self) -> Result<Option<Conflict>> {
        for number in 0..self.operation.record.steps.len() {
            let step = self.operation.record.steps[number].clone();
            if let Some(place) = self.place(&step.path, number, Way::Forward, false)?
                && place.was_written(&step)?
            {
                return Ok(Some(changed(&step.path)));
            }
        }
        Ok(None)
    }

    /// Records that the merge goes back, and goes back.
    fn turn_back(&mut self, cause: Cause) -> Result<Outcome> {
        let noted = self.operation.note(Fact::GoingBack(cause.clone())).is_ok();
        let outcome = self.go_back(cause);
        if !noted {
            // Nothing says that the steps are not done any more, so nobody may read that they are.
            self.operation.discard()?;
        }
        outcome
    }

    /// Undoes every step that was begun, last first. A file the user changed again after the step
    /// stays as the user has it and is named in the answer. What cannot be undone now is left for the
    /// next call, after all that can.
    fn go_back(&mut self, cause: Cause) -> Result<Outcome> {
        let mut kept = Vec::new();
        if !self.operation.facts().contains(&Fact::WentBack) {
            let undone = self.operation.undone();
            let mut stuck = Vec::new();
            for number in (0..self.operation.record.steps.len()).rev() {
                if undone.contains(&number) {
                    continue;
                }
                match self.undo(number) {
                    Ok(conflict) => {
                        kept.extend(conflict);
                        // Undoing a step twice does no harm, so this need not be on disk.
                        let _ = self.operation.note(Fact::Undone(number));
                    }
                    Err(error) => stuck.push((number, error)),
                }
            }
            self.remove_made_directories();
            if let Some((_, error)) = stuck.first() {
                let paths =
                    stuck.iter().map(|(n, _)| self.operation.record.steps[*n].path.as_str());
                let paths: Vec<_> = paths.collect();
                let what = format!("the merge is not undone at {}", paths.join(", "));
                return Err(Error::new(codes::MERGE_INCOMPLETE, what)
                    .why(error)
                    .with("paths", paths));
            }
            (self.interrupt)("note went back")?;
            let _ = self.operation.note(Fact::WentBack);
        }
        match cause {
            Cause::Conflicts(mut conflicts) => {
                conflicts.extend(kept);
                Ok(Outcome::Conflict(conflicts))
            }
            fault @ Cause::Fault { .. } => {
                let names: Vec<_> = kept.iter().map(|conflict| conflict.path.as_str()).collect();
                Err(fault.into_error().with("kept_as_you_changed_them", names))
            }
        }
    }

    /// Undoes one step; a conflict when the user changed the path after it.
    fn undo(&mut self, number: usize) -> Result<Option<Conflict>> {
        let step = self.operation.record.steps[number].clone();
        let done = self.operation.done();
        // The step that was under way may have put its file in place without being noted.
        let next = (0..).find(|number| !done.contains(number));
        let was_under_way = next == Some(number) && step.before.is_none() && {
            self.root.find(&step.path).is_ok_and(|found| is(&found, step.after.as_ref()))
        };
        let mine = done.contains(&number) || was_under_way;
        (self.interrupt)("undo")?;
        let undone = match self.place(&step.path, number, Way::Forward, false)? {
            Some(place) => place.undo(&step, mine, self.interrupt)?,
            None if mine => Undone::ByContent,
            None => Undone::Back,
        };
        let conflict = match undone {
            Undone::Back => None,
            Undone::Users => Some(changed(&step.path)),
            Undone::ByContent => {
                let Step { path, before, after, .. } = step.clone();
                let back = Step { path, before: after, after: before, replaces_directory: false };
                match self.perform(&back, number, Way::Back)? {
                    Ended::Done => None,
                    Ended::Unexpected(conflict) => Some(conflict),
                }
            }
        };
        // So that a file which a directory took the place of finds its place free.
        self.remove_made_directories();
        Ok(conflict)
    }

    /// A step's path with its directory opened; none when there is no way to it.
    fn place(
        &mut self,
        path: &CanonicalPath,
        number: usize,
        way: Way,
        makes: bool,
    ) -> Result<Option<Place>> {
        let holder = match self.root.find(path)? {
            // A way that is blocked now was open when the plan was made.
            Found::BehindLink | Found::BehindFile => return Ok(None),
            _ if makes => self.make_holder(path)?,
            Found::Absent if self.root.holder(path).is_err() => return Ok(None),
            _ => self.root.holder(path)?,
        };
        let replaced = |step: &Step| step.replaces_directory && is_at_or_below(path, &step.path);
        let emptied = self.operation.record.steps.iter().any(replaced);
        Ok(Some(Place {
            root: Rc::clone(&self.root),
            path: path.clone(),
            name: path.file_name().unwrap_or_default().to_owned(),
            swap: format!(".glasshouse-{}-{number}{}", self.operation.record.tag, way.letter()),
            holder,
            // A directory that a file replaces must become empty, so nothing is kept in it.
            keeps: way == Way::Forward && !emptied,
        }))
    }

    fn perform(&mut self, step: &Step, number: usize, way: Way) -> Result<Ended> {
        let unexpected = || Ok(Ended::Unexpected(changed(&step.path)));
        let Some(place) = self.place(&step.path, number, way, step.after.is_some())? else {
            let gone = self.root.find(&step.path)? == Found::Absent;
            return if gone && step.after.is_none() { Ok(Ended::Done) } else { unexpected() };
        };
        let interrupt = &mut *self.interrupt;
        match place.recover(step)? {
            Recovered::Fresh => {}
            Recovered::Finished => return Ok(Ended::Done),
            Recovered::Taken => return unexpected(),
        }
        match place.look(&place.name)? {
            Found::Directory if step.replaces_directory => {
                interrupt("remove emptied directory")?;
                match rustix::fs::unlinkat(&place.holder, place.name.as_str(), AtFlags::REMOVEDIR) {
                    Ok(()) => {}
                    Err(Errno::NOTEMPTY | Errno::EXIST) => return unexpected(),
                    Err(e) => return Err(place.fail("cannot replace the directory", e)),
                }
            }
            found if is(&found, step.after.as_ref()) => return Ok(Ended::Done),
            found if is(&found, step.before.as_ref()) => {}
            _ => return unexpected(),
        }
        let made = match &step.after {
            None => place.take_away(step, interrupt)?,
            Some(after) => {
                let bytes = self.operation.content(after)?;
                let file_mode = place.mode_for(after)?;
                let how = WriteHow { owner: self.owner, sync: true, file_mode };
                place.prepare(after, &bytes, how, interrupt)?;
                place.put(step, interrupt)?
            }
        };
        if made { Ok(Ended::Done) } else { unexpected() }
    }

    fn make_holder(&mut self, path: &CanonicalPath) -> Result<OwnedFd> {
        let parents = std::iter::successors(path.parent(), CanonicalPath::parent);
        let parents: Vec<_> = parents.take_while(|dir| !dir.is_root()).collect();
        for dir in parents.iter().rev() {
            if self.root.find(dir)? == Found::Absent {
                // Noted before it is made, so that going back finds it whatever fails meanwhile.
                (self.interrupt)("make directory")?;
                self.operation.note(Fact::MadeDirectory(dir.clone()))?;
            }
        }
        let (holder, made) = self.root.make_holder(path, self.owner)?;
        for dir in made {
            // The name of a new directory is durable before anything in it counts as done.
            rustix::fs::fsync(self.root.holder(&dir)?)
                .map_err(|e| self.root.error("cannot sync the directory of", &dir, e))?;
        }
        Ok(holder)
    }

    /// Deletes the replaced files that were kept.
    fn let_go(&mut self) -> Result<()> {
        for number in 0..self.operation.record.steps.len() {
            let step = self.operation.record.steps[number].clone();
            if step.before.is_none() {
                continue;
            }
            (self.interrupt)("let go")?;
            if let Some(place) = self.place(&step.path, number, Way::Forward, false)? {
                place.let_go(&step)?;
            }
        }
        Ok(())
    }

    /// Removes directories that deletions emptied, as git does.
    fn prune(&mut self) -> Result<()> {
        let gone = self.operation.record.steps.iter().filter(|step| step.after.is_none());
        let gone: Vec<_> = gone.map(|step| step.path.clone()).collect();
        for path in gone {
            let parents = std::iter::successors(path.parent(), CanonicalPath::parent);
            for dir in parents.take_while(|dir| !dir.is_root()) {
                (self.interrupt)("prune")?;
                if !self.remove_if_empty(&dir)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Removes the directories that the merge made and that hold nothing any more.
    fn remove_made_directories(&self) {
        let facts = self.operation.facts().iter();
        let mut made: Vec<_> = facts
            .filter_map(|fact| if let Fact::MadeDirectory(dir) = fact { Some(dir) } else { None })
            .collect();
        made.sort();
        for dir in made.into_iter().rev() {
            // An empty directory that stays is nothing that a merge or git sees.
            let _ = self.remove_if_empty(dir);
        }
    }

    /// Whether the directory is gone.
    fn remove_if_empty(&self, dir: &CanonicalPath) -> Result<bool> {
        let Some(name) = dir.file_name() else { return Ok(false) };
        if self.root.find(dir)? != Found::Directory {
            return Ok(true);
        }
        let holder = self.root.holder(dir)?;
        Ok(rustix::fs::unlinkat(&holder, name, AtFlags::REMOVEDIR).is_ok())
    }
}

/// Which way a step goes; its letter keeps the names beside a file apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Forward,
    Back,
}

impl Way {
    const fn letter(self) -> char {
        match self {
            Self::Forward => 'f',
            Self::Back => 'b',
        }
    }
}

fn changed(path: &CanonicalPath) -> Conflict {
    Conflict { path: path.clone(), kind: ConflictKind::ChangedMeanwhile, detail: None }
}
