//! Lines: a plan that arrives as changes, one JSON object a line.
//!
//! A change that does not fit, or that would show what is refused, is left out and named with its
//! line; the lines behind it are still read. What is shown is always what the document holds.

mod show;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::change::{self, Change, Op, Pointer};
use crate::check::{NodeRules, check_to_run};
use crate::codes;
use crate::error::Error;
use crate::json::Document;
use crate::limits::{Limits, MAX_BYTES};
use crate::patch::{End, Frame, NodeId, Patch, View};
use crate::plan::{Plan, SPEC_VERSION};
use crate::profile::Profile;
use crate::render::{Context, SURELY_FITS_BYTES, render};
use crate::report::{Issue, MAX_ISSUES, Report};
use crate::rules::element::ElementId;

/// The mark of the byte order as UTF-8 has it.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Most bytes that all changes of one answer copy or show again, however short their lines are.
const MAX_WORK_BYTES: usize = 64 * MAX_BYTES;
/// What a node that is shown again costs besides its text.
const NODE_WORK_BYTES: usize = 64;

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineIssue {
    /// Number of the line, from 1.
    pub line: usize,
    /// Its length in bytes.
    pub bytes: usize,
    /// Why it was left out.
    #[serde(flatten)]
    pub issue: Issue,
}

/// How the lines ended.
#[derive(Debug)]
pub struct LinesOutcome {
    /// How it ended.
    pub end: End,
    /// The last frame; it carries the end.
    pub frame: Frame,
    /// The plan, when it is whole and accepted.
    pub plan: Option<Plan>,
    /// What the check says about the whole.
    pub report: Option<Report>,
    /// Why the document is no plan.
    pub error: Option<Error>,
    /// The first lines that were left out.
    pub left_out: Vec<LineIssue>,
    /// How many were.
    pub left_out_count: usize,
}

/// What a node with templates is made of.
enum Bound {
    Text(String),
    Properties(ElementId, Document),
}

/// Shows a plan that arrives as lines.
///
/// ```
/// use glasshouse_plan::{Context, Profile, ProfileName};
/// use glasshouse_plan::patch::Screen;
/// use glasshouse_plan::stream::Lines;
/// let profile = Profile::named(ProfileName::Strict);
/// let context = Context::new("s1")?;
/// let mut lines = Lines::new(1, &profile, &context, "todo");
/// lines.push(b"{\"op\":\"add\",\"path\":\"/root\",\"value\":{\"type\":\"element\",\"tag\":\"ul\",\"children\":[]}}\n");
/// lines.push(b"{\"op\":\"add\",\"path\":\"/root/children/-\",\"value\":{\"type\":\"element\",\"tag\":\"li\"}}\n");
/// let outcome = lines.finish();
/// let mut screen = Screen::default();
/// screen.accept(&outcome.frame)?;
/// assert_eq!(screen.view().markup(), "<ul><li></li></ul>");
/// # Ok::<(), glasshouse_plan::Error>(())
/// ```
pub struct Lines<'c> {
    rules: NodeRules<'c>,
    profile: &'c Profile,
    context: &'c Context<'c>,
    limits: Limits,
    /// Lanes of the host that shows the plan.
    lanes: &'c [&'c str],
    run: u64,
    seq: u64,
    /// The line under way.
    line: Vec<u8>,
    number: usize,
    bytes: usize,
    document: Value,
    /// At least the size of the document; measured again when it reaches the limit.
    document_bytes: usize,
    /// What the changes so far have copied and shown again.
    work_bytes: usize,
    view: View,
    state: Option<Map<String, Value>>,
    bound: BTreeMap<NodeId, Bound>,
    next: NodeId,
    /// At least the bytes that are shown; measured again when they reach the limit.
    shown_bytes: usize,
    patches: Vec<Patch>,
    left_out: Vec<LineIssue>,
    left_out_count: usize,
}

impl<'c> Lines<'c> {
    /// Lines for one answer; `id` is the plan's until a line gives it another.
    #[must_use]
    pub fn new(run: u64, profile: &'c Profile, context: &'c Context<'c>, id: &str) -> Self {
        Self {
            rules: NodeRules::new(profile, true),
            profile,
            context,
            limits: profile.limits(),
            lanes: &[],
            run,
            seq: 0,
            line: Vec::new(),
            number: 0,
            bytes: 0,
            document: serde_json::json!({"specVersion": SPEC_VERSION, "id": id, "version": 1}),
            document_bytes: 0,
            work_bytes: 0,
            view: View::default(),
            state: None,
            bound: BTreeMap::new(),
            next: 0,
            shown_bytes: 0,
            patches: Vec::new(),
            left_out: Vec::new(),
            left_out_count: 0,
        }
    }

    /// As [`Stream::lanes`](super::Stream::lanes).
    #[must_use]
    pub fn lanes(mut self, lanes: &'c [&'c str]) -> Self {
        self.lanes = lanes;
        self
    }

    /// Takes the next bytes. A line has an effect when its end has arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            // Past the limit lines are counted but no longer kept.
            let room = MAX_BYTES.saturating_sub(self.bytes).min(part.len());
            self.bytes += room;
            self.line.extend_from_slice(&part[..room]);
            if part.ends_with(b"\n") {
                self.end_line(room < part.len());
            }
        }
    }

    fn end_line(&mut self, cut: bool) {
        self.number += 1;
        let line = std::mem::take(&mut self.line);
        let issue = if cut {
            Some(issue(
                &Error::new(codes::TOO_LARGE, "the answer is too long")
                    .why(format!("limit {MAX_BYTES} bytes")),
            ))
        } else {
            // A mark of the byte order in front says nothing about UTF-8.
            let text = line.strip_prefix(BOM).filter(|_| self.number == 1).unwrap_or(&line);
            match std::str::from_utf8(text) {
                Ok(text) if text.trim().is_empty() => None,
                Ok(text) => self.take(text).err(),
                Err(_) => Some(issue(
                    &Error::new(codes::LINE_INVALID, "a line is not text").why("it is not UTF-8"),
                )),
            }
        };
        if let Some(issue) = issue {
            self.left_out_count += 1;
            if self.left_out.len() < MAX_ISSUES {
                self.left_out.push(LineIssue { line: self.number, bytes: line.len(), issue });
            }
        }
    }

    /// Makes one change, or nothing.
    fn take(&mut self, text: &str) -> Result<(), Issue> {
        self.work(0)?;
        let change = Change::read(text.trim()).map_err(|error| issue(&readable(error)))?;
        if matches!(change.op, Op::Move | Op::Copy) {
            let value = change::find(&self.document, &change.from);
            self.work(value.map_or(0, |value| crate::size::of(value).bytes))?;
        }
        if change.op == Op::Move { self.take_move(&change) } else { self.take_one(&change) }
    }

    /// Counts what a change costs beyond its own length.
    fn work(&mut self, bytes: usize) -> Result<(), Issue> {
        self.work_bytes = self.work_bytes.saturating_add(bytes);
        if self.work_bytes <= MAX_WORK_BYTES {
            return Ok(());
        }
        let error = Error::new(codes::TOO_LARGE, "the changes are too much work");
        Err(issue(&error.why(format!("limit {MAX_WORK_BYTES} bytes copied or shown again"))))
    }

    fn take_one(&mut self, change: &Change) -> Result<(), Issue> {
        let undo = change::apply(&mut self.document, change).map_err(|error| issue(&error))?;
        let result = self.within_limits(change).and_then(|()| {
            undo.iter().try_for_each(|undo| self.show(&undo.path, Step::undone_by(undo.op)))
        });
        if result.is_err() {
            self.undo(&undo);
            let _ = self.read_state();
        }
        result
    }

    /// What was there before fits the document, so undoing cannot fail.
    fn undo(&mut self, undo: &[Change]) {
        for change in undo {
            let _ = change::apply(&mut self.document, change);
        }
    }

    /// Moves as one step among siblings, else as two: each is shown on the document that it made.
    fn take_move(&mut self, change: &Change) -> Result<(), Issue> {
        let undo = change::apply(&mut self.document, change).map_err(|error| issue(&error))?;
        if self.move_child(&change.from, &undo[0].path)? {
            return Ok(());
        }
        self.undo(&undo);
        let value = change::find(&self.document, &change.from).cloned().unwrap_or_default();
        self.take_one(&Change::new(Op::Remove, change.from.clone(), Value::Null))?;
        let added = self.take_one(&Change::new(Op::Add, change.path.clone(), value.clone()));
        if added.is_err() {
            // It was there a moment ago and passed.
            let _ = self.take_one(&Change::new(Op::Add, change.from.clone(), value));
        }
        added
    }

    /// Moves a child among its siblings, where nothing else about it can change; false when it is
    /// another kind of move.
    fn move_child(&mut self, from: &Pointer, to: &Pointer) -> Result<bool, Issue> {
        let (Some((parent, old)), Some((other, new))) = (from.split_last(), to.split_last()) else {
            return Ok(false);
        };
        let place = if parent == other { self.children_at(&parent) } else { None };
        let (Some(children), Some(old), Some(new)) =
            (place, crate::path::index(old), crate::path::index(new))
        else {
            return Ok(false);
        };
        let mut rest = children.to_vec();
        let id = rest.remove(old);
        let before = rest.get(new).copied();
        self.apply(vec![Patch::Mov { id, before }])?;
        Ok(true)
    }

    /// The nodes of a list of children, named as in `/root/children/0/children`.
    fn children_at(&self, path: &Pointer) -> Option<&[NodeId]> {
        let (root, steps) = path.tokens().split_first()?;
        let mut id = self.view.root().filter(|_| root == "root")?;
        let mut steps = steps.iter();
        while steps.next().is_some_and(|step| step == "children") {
            let Some(index) = steps.next() else {
                return self.view.shown(id).map(|node| node.children.as_slice());
            };
            id = self.child(id, crate::path::index(index)?)?;
        }
        None
    }

    fn within_limits(&mut self, change: &Change) -> Result<(), Issue> {
        self.document_bytes += match change.op {
            Op::Add | Op::Replace | Op::Upsert => crate::size::of(&change.value).bytes,
            Op::Copy => change::find(&self.document, &change.from)
                .map_or(0, |value| crate::size::of(value).bytes),
            Op::Remove | Op::Move | Op::Test => 0,
        };
        // A value in memory is larger than its text.
        let max = self.limits.bytes.saturating_mul(4);
        if self.document_bytes > max {
            self.document_bytes = crate::size::of(&self.document).bytes;
        }
        if self.document_bytes > max {
            let error = Error::new(codes::TOO_LARGE, "the document is too large");
            return Err(issue(&error.why(format!("limit {max} bytes in memory"))));
        }
        Ok(())
    }

    /// What has changed since the last frame, if anything has.
    pub fn frame(&mut self) -> Option<Frame> {
        let patches = std::mem::take(&mut self.patches);
        if patches.is_empty() { None } else { Some(self.numbered(patches, None)) }
    }

    fn numbered(&mut self, patches: Vec<Patch>, end: Option<End>) -> Frame {
        let seq = self.seq;
        self.seq += 1;
        Frame { run: self.run, seq, patches, end }
    }

    /// Ends the answer: the document is checked as a whole, by the rules that
    /// [`render`](crate::render) asks.
    #[must_use]
    pub fn finish(mut self) -> LinesOutcome {
        let cut = self.ends_inside_a_line();
        let mut too_much = None;
        if self.state.is_none() {
            self.state = Some(Map::new());
            too_much = self.show_bound().err();
        }
        let mut patches = std::mem::take(&mut self.patches);
        let (mut plan, mut report, mut error) = (None, None, None);
        let end = match crate::plan::parse(&self.document.to_string(), &self.limits) {
            Err(why) if why.is(codes::TOO_LARGE) || why.is(codes::TOO_DEEP) => {
                report = Some(Report::of(&why));
                End::Refused
            }
            Err(why) => {
                error = Some(why);
                End::Incomplete
            }
            Ok(whole) => {
                let mut checked = check_to_run(&whole, self.profile, self.lanes);
                if checked.safe && self.view.value_bytes() > SURELY_FITS_BYTES {
                    let shown = super::without_code(&whole, &self.limits)
                        .and_then(|whole| render(&whole, self.profile, self.context));
                    too_much = too_much.or(shown.err().map(|error| issue(&error)));
                }
                if let Some(issue) = too_much.filter(|_| checked.safe) {
                    checked = Report::of_issue(issue);
                }
                let safe = checked.safe;
                plan = Some(whole).filter(|_| safe && !cut);
                report = Some(checked);
                match (safe, cut) {
                    (false, _) => End::Refused,
                    (true, true) => {
                        let broken = Error::new(codes::INCOMPLETE, "the plan is incomplete");
                        error = Some(broken.why("the text ended inside a line"));
                        End::Incomplete
                    }
                    (true, false) => End::Complete,
                }
            }
        };
        if end == End::Refused {
            patches.extend(self.view.root().map(|id| Patch::Del { id }));
        }
        let frame = self.numbered(patches, Some(end));
        let Self { left_out, left_out_count, .. } = self;
        LinesOutcome { end, frame, plan, report, error, left_out, left_out_count }
    }

    /// Takes a last line that has no end; true when it is no whole change.
    fn ends_inside_a_line(&mut self) -> bool {
        if self.line.is_empty() {
            return false;
        }
        let text = self.line.strip_prefix(BOM).unwrap_or(&self.line);
        let whole = serde_json::from_slice::<serde::de::IgnoredAny>(text);
        self.end_line(false);
        whole.is_err_and(|error| error.is_eof())
    }
}

/// What happened at a place of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Added,
    Removed,
    Replaced,
}

impl Step {
    fn undone_by(undo: Op) -> Self {
        match undo {
            Op::Remove => Self::Added,
            Op::Add => Self::Removed,
            _ => Self::Replaced,
        }
    }
}

fn issue(error: &Error) -> Issue {
    let report = error.report();
    let why = if report.why.is_empty() {
        report.what
    } else {
        format!("{}: {}", report.what, report.why)
    };
    Issue { code: report.code, pointer: error.pointer().to_owned(), message: why, fix: report.fix }
}

/// Text that is no JSON is a line that cannot be read, whatever is wrong with it.
fn readable(error: Error) -> Error {
    if error.is(codes::JSON_INVALID) || error.is(codes::KEY_DUPLICATE) {
        return Error::new(codes::LINE_INVALID, "a line cannot be read").why(error);
    }
    error
}
