//! One path of the project while a step works on it.

use std::os::fd::OwnedFd;
use std::rc::Rc;

use glasshouse_model::CanonicalPath;
use glasshouse_sandbox::workspace::Entry;
use glasshouse_sandbox::workspace::beneath::{Found, Root, WriteHow};
use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;

use super::apply::Interrupt;
use super::plan::Step;
use crate::codes;
use crate::{Error, Result};

/// Most times a newer file is met while one is given back; who saves faster is no person.
const MAX_HAND_OVERS: u32 = 64;

/// What an interrupted earlier try left.
pub(super) enum Recovered {
    /// Nothing that matters; begin.
    Fresh,
    /// The step had been done.
    Finished,
    /// The user's edit was met; it is back in its place.
    Taken,
}

/// How a step was taken back.
pub(super) enum Undone {
    /// The path is as before the step.
    Back,
    /// Nothing was kept beside it; the content has to be written again.
    ByContent,
    /// The user changed the path after the step; it stays so.
    Users,
}

/// One path of the project, its directory opened, and the name beside it that a step works with.
/// The swap name only ever holds whole files: the prepared one before the exchange, the replaced one
/// after it. What is being written has a third name.
pub(super) struct Place {
    pub(super) root: Rc<Root>,
    pub(super) path: CanonicalPath,
    pub(super) holder: OwnedFd,
    pub(super) name: String,
    pub(super) swap: String,
    /// Whether the replaced file stays under the swap name until the whole merge is made: going back
    /// then needs no space and gives back the very file.
    pub(super) keeps: bool,
}

impl Place {
    pub(super) fn look(&self, name: &str) -> Result<Found> {
        Ok(self.root.find_in(&self.holder, name, &self.path)?.0)
    }

    pub(super) fn fail(&self, what: &str, errno: Errno) -> Error {
        self.root.error(what, &self.path, errno).into()
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

    pub(super) fn recover(&self, step: &Step) -> Result<Recovered> {
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
            self.sync()?;
            if !self.keeps {
                self.unlink(&self.swap)?;
            }
            return Ok(Recovered::Finished);
        }
        if is(&current, step.after.as_ref()) {
            self.give_back(step)?;
            return Ok(Recovered::Taken);
        }
        Err(self.damaged())
    }

    fn damaged(&self) -> Error {
        let what = format!("cannot finish the merge of `{}`", self.path);
        Error::new(codes::OPERATION_DAMAGED, what)
            .why(format!("both it and `{}` beside it were changed by someone else", self.swap))
            .with("path", self.path.as_str())
    }

    /// Takes a step back by what it kept beside the path. `mine`: what is at the path counts as put
    /// there by the step even where nothing was kept.
    pub(super) fn undo(&self, step: &Step, mine: bool, interrupt: Interrupt<'_>) -> Result<Undone> {
        self.unlink(&self.part())?;
        let (kept, current) = (self.look(&self.swap)?, self.look(&self.name)?);
        let is_after = is(&current, step.after.as_ref());
        if kept == Found::Absent {
            return Ok(if mine { Undone::ByContent } else { Undone::Back });
        }
        if step.after.is_some() && is(&kept, step.after.as_ref()) {
            // Prepared, and never exchanged.
            self.unlink(&self.swap)?;
            return Ok(Undone::Back);
        }
        if !is(&kept, step.before.as_ref()) {
            // The user's newer file was taken out and not given back yet.
            if !is_after {
                return Err(self.damaged());
            }
            self.give_back(step)?;
            return Ok(Undone::Users);
        }
        interrupt("take back")?;
        let back = is_after && self.take_back(step)?;
        self.sync()?;
        self.unlink(&self.swap)?;
        Ok(if back { Undone::Back } else { Undone::Users })
    }

    /// `false`: the user was quicker, and the path is as the user has it.
    fn take_back(&self, step: &Step) -> Result<bool> {
        if step.after.is_none() {
            return match self.rename(&self.swap, &self.name, RenameFlags::NOREPLACE) {
                Ok(()) => Ok(true),
                Err(Errno::EXIST) => Ok(false),
                Err(e) => Err(self.fail("cannot give back", e)),
            };
        }
        self.hand_over(step.after.as_ref())
    }

    /// Puts the file under the swap name at the path, where the step's own file is. Whatever else is
    /// there was saved meanwhile and is newer, so it goes back, however often that happens: what is
    /// under the swap name in the end is never the newest. `false`: the path holds a newer file.
    fn hand_over(&self, own: Option<&Entry>) -> Result<bool> {
        let mut at_path = match own {
            Some(entry) => Found::Entry(entry.clone()),
            None => Found::Absent,
        };
        for round in 0..MAX_HAND_OVERS {
            let put = self.look(&self.swap)?;
            self.rename(&self.swap, &self.name, RenameFlags::EXCHANGE)
                .map_err(|e| self.fail("cannot give back", e))?;
            if self.look(&self.swap)? == at_path {
                return Ok(round == 0);
            }
            at_path = put;
        }
        Err(self.damaged())
    }

    /// Whether the file that was kept was written to after it was taken out, by who had it open.
    pub(super) fn was_written(&self, step: &Step) -> Result<bool> {
        let kept = self.look(&self.swap)?;
        Ok(self.keeps && kept != Found::Absent && !is(&kept, step.before.as_ref()))
    }

    /// Deletes the file that was kept, once nothing can go back any more.
    pub(super) fn let_go(&self, step: &Step) -> Result<()> {
        if step.before.is_some() && is(&self.look(&self.swap)?, step.before.as_ref()) {
            self.unlink(&self.swap)?;
        }
        Ok(())
    }

    /// The bits that other users' access to the file had, with the executable bits as `after` says.
    pub(super) fn mode_for(&self, after: &Entry) -> Result<Option<u32>> {
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

    pub(super) fn prepare(
        &self,
        after: &Entry,
        bytes: &[u8],
        how: WriteHow,
        interrupt: Interrupt<'_>,
    ) -> Result<()> {
        interrupt("write part")?;
        self.root.write_new(&self.holder, &self.part(), after, bytes, how).map_err(|error| {
            if !error.is(glasshouse_sandbox::codes::WORKSPACE_IO) {
                return error.into();
            }
            // The name beside the path is ours; a person knows the path.
            let what = format!("cannot write beside `{}`", self.path);
            Error::new(glasshouse_sandbox::codes::WORKSPACE_IO, what)
                .why(error.report().why)
                .fix("make its directory one that you can write to, or free space on its disk")
                .with("path", self.path.as_str())
        })?;
        interrupt("name swap")?;
        self.rename(&self.part(), &self.swap, RenameFlags::NOREPLACE)
            .map_err(|e| self.fail("cannot prepare", e))
    }

    /// Exchanges the prepared file with the present one, or puts it where nothing is. `false`: the
    /// path did not hold what was expected, and holds it still.
    pub(super) fn put(&self, step: &Step, interrupt: Interrupt<'_>) -> Result<bool> {
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
    pub(super) fn take_away(&self, step: &Step, interrupt: Interrupt<'_>) -> Result<bool> {
        interrupt("take away")?;
        match self.rename(&self.name, &self.swap, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(true),
            Err(e) => return Err(self.fail("cannot delete", e)),
        }
        interrupt("verify")?;
        self.settle(step, interrupt)
    }

    /// Looks at what came out. Expected: keep it aside, or delete it. Else it is the user's newer file: give it back.
    fn settle(&self, step: &Step, interrupt: Interrupt<'_>) -> Result<bool> {
        if !is(&self.look(&self.swap)?, step.before.as_ref()) {
            self.give_back(step)?;
            return Ok(false);
        }
        // The new name is durable before the old content is gone.
        self.sync()?;
        if self.keeps {
            return Ok(true);
        }
        interrupt("remove swap")?;
        self.unlink(&self.swap)?;
        interrupt("sync")?;
        self.sync()?;
        Ok(true)
    }

    fn give_back(&self, step: &Step) -> Result<()> {
        if step.after.is_some() {
            self.hand_over(step.after.as_ref())?;
            self.unlink(&self.swap)?;
            return self.sync();
        }
        match self.rename(&self.swap, &self.name, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            // A still newer file is there.
            Err(Errno::EXIST) => self.unlink(&self.swap)?,
            Err(e) => return Err(self.fail("cannot give back", e)),
        }
        self.sync()
    }
}

pub(super) fn is(found: &Found, expected: Option<&Entry>) -> bool {
    match (found, expected) {
        (Found::Absent, None) => true,
        (Found::Entry(entry), Some(expected)) => entry == expected,
        _ => false,
    }
}
