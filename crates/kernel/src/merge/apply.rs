//! Doing a merge: all of it or nothing, resumable, without losing an edit the user makes meanwhile.
//!
//! Each step prepares the new file beside its place, exchanges the two names in one act of the file
//! system, and then looks at what came out. If that is not what the plan expected, the user saved in
//! between: the exchange is undone, the merge goes back step by step, and the answer is a conflict.
//! A crash anywhere leaves each file old or new; the next call with the same operation finishes.

use std::os::fd::OwnedFd;
use std::path::Path;

use glasshouse_model::{CanonicalPath, Digest};
use glasshouse_sandbox::workspace::beneath::{Found, Root, WriteHow};
use glasshouse_sandbox::workspace::git::Git;
use glasshouse_sandbox::workspace::{Entry, Owner};
use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;

use super::conflict::{Conflict, ConflictKind};
use super::oplog::{Fact, Operation, OperationDir, Record};
use super::plan::{Binding, Input, Plan, Step, make};
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

/// Merges a change set into the project. Calling it again with the same operation finishes what a
/// crash cut off, and answers the same when nothing is left to do.
///
/// # Errors
/// `stale_review` naming the path when what was approved is not what would be merged, `head_moved`
/// when the project is on another branch than at the freeze, `operation_invalid` when the id was used
/// for another change set, `operation_damaged`, `workspace_io`.
pub fn apply(
    project: &Path,
    input: Input<'_>,
    authority: Authority<'_>,
    operation: &OperationDir,
) -> Result<Outcome> {
    apply_with(project, input, authority, operation, &mut |_| Ok(()))
}

/// Called before each act that a crash could fall on; tests stop there.
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
    let operation = match Operation::open(at)? {
        Some(operation) if operation.record.set == set && operation.record.project == project => {
            operation
        }
        Some(_) => {
            return Err(Error::new(
                codes::OPERATION_INVALID,
                format!("cannot use operation `{}`", at.id()),
            )
            .why("it is the record of another merge"));
        }
        None => {
            let plan = match planned(project, input, authority)? {
                Ok(plan) => plan,
                Err(conflicts) => return Ok(Outcome::Conflict(conflicts)),
            };
            let head = head_for_merge(project, input)?;
            interrupt("begin")?;
            Operation::begin(at, Record::new(at.id(), project, set, head, &plan), &plan)?
        }
    };
    let root = Root::open(project)?;
    let owner = rustix::process::geteuid().is_root().then(|| root.owner()).transpose()?;
    Run { root, owner, operation, interrupt }.finish()
}

fn planned(
    project: &Path,
    input: Input<'_>,
    authority: Authority<'_>,
) -> Result<Result<Plan, Vec<Conflict>>> {
    let Authority::Reviewed { binding, deletions } = authority else {
        return make(project, input, false);
    };
    // The proposal was made with deletions, so that the person saw them.
    let whole = make(project, input, true)?;
    let now = whole.as_ref().ok().map(|plan| plan.binding(input.base.digest));
    if now.as_ref() != Some(binding) {
        return Err(stale(binding, now.as_ref(), whole.as_ref().err()));
    }
    if deletions { Ok(whole) } else { make(project, input, false) }
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

/// Where git stands, recorded for the commit; another branch than at the freeze is refused.
fn head_for_merge(
    project: &Path,
    input: Input<'_>,
) -> Result<Option<(Option<String>, Option<String>)>> {
    let (Some(frozen), Some(git)) = (&input.base.git, Git::discover(project)?) else {
        return Ok(None);
    };
    let head = git.head()?;
    if head.0 != frozen.branch {
        let name =
            |branch: &Option<String>| branch.clone().unwrap_or_else(|| "no branch".to_owned());
        return Err(Error::new(codes::HEAD_MOVED, "the project is on another branch").why(
            format!("the session began on {}, now it is {}", name(&frozen.branch), name(&head.0)),
        ));
    }
    Ok(Some(head))
}

struct Run<'a> {
    root: Root,
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

impl Run<'_> {
    fn finish(mut self) -> Result<Outcome> {
        let going_back = self.operation.facts().iter().find_map(|fact| match fact {
            Fact::GoingBack(conflicts) => Some(conflicts.clone()),
            _ => None,
        });
        if let Some(conflicts) = going_back {
            return self.go_back(conflicts);
        }
        if !self.operation.facts().contains(&Fact::Applied) {
            let done = self.operation.done();
            for number in 0..self.operation.record.steps.len() {
                if done.contains(&number) {
                    continue;
                }
                let step = self.operation.record.steps[number].clone();
                if let Ended::Unexpected(conflict) = self.perform(&step, number, "f")? {
                    self.operation.note(Fact::GoingBack(vec![conflict.clone()]))?;
                    return self.go_back(vec![conflict]);
                }
                (self.interrupt)("note done")?;
                self.operation.note(Fact::Done(number))?;
            }
            self.prune()?;
            (self.interrupt)("note applied")?;
            self.operation.note(Fact::Applied)?;
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

    /// Undoes the done steps, last first. A file the user changed again after the step stays as the
    /// user has it and is named in the answer.
    fn go_back(mut self, mut conflicts: Vec<Conflict>) -> Result<Outcome> {
        let facts = self.operation.facts();
        if facts.contains(&Fact::WentBack) {
            return Ok(Outcome::Conflict(conflicts));
        }
        let undone: Vec<_> = facts
            .iter()
            .filter_map(|f| if let Fact::Undone(n) = f { Some(*n) } else { None })
            .collect();
        for number in self.operation.done().into_iter().rev() {
            if undone.contains(&number) {
                continue;
            }
            let step = self.operation.record.steps[number].clone();
            let back = Step {
                path: step.path,
                before: step.after,
                after: step.before,
                replaces_directory: false,
            };
            if let Ended::Unexpected(conflict) = self.perform(&back, number, "b")? {
                conflicts.push(conflict);
            }
            (self.interrupt)("note undone")?;
            self.operation.note(Fact::Undone(number))?;
        }
        let mut made: Vec<_> = self
            .operation
            .facts()
            .iter()
            .filter_map(|f| if let Fact::MadeDirectory(dir) = f { Some(dir.clone()) } else { None })
            .collect();
        made.sort();
        for dir in made.iter().rev() {
            self.remove_if_empty(dir)?;
        }
        (self.interrupt)("note went back")?;
        self.operation.note(Fact::WentBack)?;
        Ok(Outcome::Conflict(conflicts))
    }

    fn perform(&mut self, step: &Step, number: usize, way: &str) -> Result<Ended> {
        let unexpected = || {
            let kind = ConflictKind::ChangedMeanwhile;
            Ok(Ended::Unexpected(Conflict { path: step.path.clone(), kind, detail: None }))
        };
        let holder = match (&step.after, self.root.find(&step.path)?) {
            // A way that is blocked now was open when the plan was made.
            (_, Found::BehindLink | Found::BehindFile) => return unexpected(),
            (None, Found::Absent) if self.root.holder(&step.path).is_err() => {
                return Ok(Ended::Done);
            }
            (None, _) => self.root.holder(&step.path)?,
            (Some(_), _) => self.make_holder(&step.path)?,
        };
        let place = Place {
            root: &self.root,
            path: &step.path,
            name: step.path.file_name().unwrap_or_default().to_owned(),
            swap: format!(".glasshouse-{}-{number}{way}", self.operation.record.id),
            holder,
        };
        match place.recover(step)? {
            Recovered::Fresh => {}
            Recovered::Finished => return Ok(Ended::Done),
            Recovered::Taken => return unexpected(),
        }
        match place.look(&place.name)? {
            Found::Directory if step.replaces_directory => {
                (self.interrupt)("remove emptied directory")?;
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
        let Some(after) = &step.after else {
            return if place.take_away(step, self.interrupt)? {
                Ok(Ended::Done)
            } else {
                unexpected()
            };
        };
        let bytes = self.operation.content(after)?;
        let how = WriteHow { owner: self.owner, sync: true, file_mode: place.mode_for(after)? };
        place.prepare(after, &bytes, how, self.interrupt)?;
        if place.put(step, self.interrupt)? { Ok(Ended::Done) } else { unexpected() }
    }

    fn make_holder(&mut self, path: &CanonicalPath) -> Result<OwnedFd> {
        (self.interrupt)("make directory")?;
        let (holder, made) = self.root.make_holder(path, self.owner)?;
        for dir in made {
            // The name of a new directory is durable before anything in it counts as done.
            rustix::fs::fsync(self.root.holder(&dir)?)
                .map_err(|e| self.root.error("cannot sync the directory of", &dir, e))?;
            self.operation.note(Fact::MadeDirectory(dir))?;
        }
        Ok(holder)
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

/// What an interrupted earlier try left.
enum Recovered {
    /// Nothing that matters; begin.
    Fresh,
    /// The step had been done.
    Finished,
    /// The user's edit was met; it is back in its place.
    Taken,
}

/// One path of the project, its directory opened, and the name beside it that a step works with.
/// The swap name only ever holds whole files: the prepared one before the exchange, the replaced one
/// after it. What is being written has a third name.
struct Place<'a> {
    root: &'a Root,
    path: &'a CanonicalPath,
    holder: OwnedFd,
    name: String,
    swap: String,
}

impl Place<'_> {
    fn look(&self, name: &str) -> Result<Found> {
        Ok(self.root.find_in(&self.holder, name, self.path)?.0)
    }

    fn fail(&self, what: &str, errno: Errno) -> Error {
        self.root.error(what, self.path, errno).into()
    }

    fn rename(&self, from: &str, to: &str, how: RenameFlags) -> Result<(), Errno> {
        rustix::fs::renameat_with(&self.holder, from, &self.holder, to, how)
    }

    fn unlink(&self, name: &str) -> Result<()> {
        match rustix::fs::unlinkat(&self.holder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(self.fail("cannot remove the leftover beside", e)),
        }
    }

    fn sync(&self) -> Result<()> {
        rustix::fs::fsync(&self.holder).map_err(|e| self.fail("cannot sync the directory of", e))
    }

    fn part(&self) -> String {
        format!("{}.part", self.swap)
    }

    fn recover(&self, step: &Step) -> Result<Recovered> {
        self.unlink(&self.part())?;
        let swapped = self.look(&self.swap)?;
        if swapped == Found::Absent {
            return Ok(Recovered::Fresh);
        }
        let current = self.look(&self.name)?;
        let prepared = step.after.is_some() && is(&swapped, step.after.as_ref());
        if prepared && !is(&current, step.after.as_ref()) {
            // Stopped before the exchange.
            self.unlink(&self.swap)?;
            return Ok(Recovered::Fresh);
        }
        if is(&swapped, step.before.as_ref()) || prepared {
            // Stopped after it, with the expected file taken out.
            self.unlink(&self.swap)?;
            self.sync()?;
            return Ok(Recovered::Finished);
        }
        if is(&current, step.after.as_ref()) {
            self.give_back(step)?;
            return Ok(Recovered::Taken);
        }
        Err(Error::new(
            codes::OPERATION_DAMAGED,
            format!("cannot finish the merge of `{}`", self.path),
        )
        .why(format!("both it and `{}` beside it were changed by someone else", self.swap))
        .with("path", self.path.as_str()))
    }

    /// The bits that other users' access to the file had, with the executable bits as `after` says.
    fn mode_for(&self, after: &Entry) -> Result<Option<u32>> {
        let Entry::File { executable, .. } = after else { return Ok(None) };
        let stat = rustix::fs::statat(&self.holder, self.name.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        let stat = match stat {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(self.fail("cannot look at", e)),
        };
        if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
            return Ok(None);
        }
        let bits = stat.st_mode & 0o666;
        Ok(Some(if *executable { bits | 0o100 | (bits & 0o444) >> 2 } else { bits }))
    }

    fn prepare(
        &self,
        after: &Entry,
        bytes: &[u8],
        how: WriteHow,
        interrupt: Interrupt<'_>,
    ) -> Result<()> {
        interrupt("write part")?;
        self.root.write_new(&self.holder, &self.part(), after, bytes, how)?;
        interrupt("name swap")?;
        self.rename(&self.part(), &self.swap, RenameFlags::NOREPLACE)
            .map_err(|e| self.fail("cannot prepare", e))
    }

    /// Exchanges the prepared file with the present one, or puts it where nothing is. `false`: the
    /// path did not hold what was expected, and holds it still.
    fn put(&self, step: &Step, interrupt: Interrupt<'_>) -> Result<bool> {
        interrupt("exchange")?;
        if step.before.is_none() {
            match self.rename(&self.swap, &self.name, RenameFlags::NOREPLACE) {
                Ok(()) => {}
                Err(Errno::EXIST) => {
                    self.unlink(&self.swap)?;
                    return Ok(false);
                }
                Err(e) => return Err(self.fail("cannot put in place", e)),
            }
            interrupt("sync")?;
            self.sync()?;
            return Ok(true);
        }
        match self.rename(&self.swap, &self.name, RenameFlags::EXCHANGE) {
            Ok(()) => {}
            Err(Errno::NOENT) => {
                self.unlink(&self.swap)?;
                return Ok(false);
            }
            Err(e) => return Err(self.fail("cannot put in place", e)),
        }
        interrupt("verify")?;
        self.settle(step, interrupt)
    }

    /// Takes the file out of its place and deletes it. `false` as in [`Place::put`].
    fn take_away(&self, step: &Step, interrupt: Interrupt<'_>) -> Result<bool> {
        interrupt("take away")?;
        match self.rename(&self.name, &self.swap, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(true),
            Err(e) => return Err(self.fail("cannot delete", e)),
        }
        interrupt("verify")?;
        self.settle(step, interrupt)
    }

    /// Looks at what came out. Expected: delete it. Else it is the user's newer file: give it back.
    fn settle(&self, step: &Step, interrupt: Interrupt<'_>) -> Result<bool> {
        if !is(&self.look(&self.swap)?, step.before.as_ref()) {
            self.give_back(step)?;
            return Ok(false);
        }
        // The new name is durable before the old content is gone.
        self.sync()?;
        interrupt("remove swap")?;
        self.unlink(&self.swap)?;
        interrupt("sync")?;
        self.sync()?;
        Ok(true)
    }

    fn give_back(&self, step: &Step) -> Result<()> {
        let how = if step.after.is_some() { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        self.rename(&self.swap, &self.name, how).map_err(|e| self.fail("cannot give back", e))?;
        if step.after.is_some() {
            self.unlink(&self.swap)?;
        }
        self.sync()
    }
}

fn is(found: &Found, expected: Option<&Entry>) -> bool {
    match (found, expected) {
        (Found::Absent, None) => true,
        (Found::Entry(entry), Some(expected)) => entry == expected,
        _ => false,
    }
}
