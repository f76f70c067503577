//! The screen: takes frames as they arrive and keeps the view of the newest run.

use super::{End, Frame, View};
use crate::codes;
use crate::error::Error;

/// What happened to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// Its patches are in the view.
    Applied,
    /// It belongs to an older run, or was seen before; nothing changed.
    Stale,
}

/// Where frames are applied.
///
/// A new run takes the place of the old one with its first frame, so there is no moment in which
/// nothing is shown; later frames of the old run are dropped.
#[derive(Debug, Clone, Default)]
pub struct Screen {
    run: Option<u64>,
    next: u64,
    view: View,
    end: Option<End>,
}

impl Screen {
    /// Takes a frame.
    ///
    /// # Errors
    ///
    /// `plan_frame_gap` when a frame before it is missing, and nothing changes; `plan_patch_invalid`
    /// when it does not fit the run's view, which is then thrown away.
    pub fn accept(&mut self, frame: &Frame) -> Result<Accepted, Error> {
        let newer = self.run.is_none_or(|run| frame.run > run);
        let expected = if newer { 0 } else { self.next };
        if self.run.is_some_and(|run| frame.run < run) || frame.seq < expected {
            return Ok(Accepted::Stale);
        }
        if frame.seq > expected {
            return Err(Error::new(codes::FRAME_GAP, "a frame is missing")
                .why(format!("run {}: expected {expected}, found {}", frame.run, frame.seq))
                .with("expected", expected)
                .with("found", frame.seq));
        }
        if newer {
            let mut view = View::default();
            view.apply(&frame.patches)?;
            *self = Self { run: Some(frame.run), next: 1, view, end: frame.end };
            return Ok(Accepted::Applied);
        }
        if let Err(error) = self.view.apply(&frame.patches) {
            // What is half applied is not what anybody sent.
            *self = Self { run: Some(frame.run), next: u64::MAX, ..Self::default() };
            return Err(error);
        }
        self.next = frame.seq + 1;
        self.end = frame.end;
        Ok(Accepted::Applied)
    }

    /// What is shown.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// How the run ended, if it has.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        self.end
    }
}
