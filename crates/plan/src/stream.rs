//! Streams: a plan is shown while a model is still writing it.
//!
//! [`Stream`] takes the bytes of one answer in pieces of any size and gives [`Frame`]s. It shows a
//! node only when the node has passed schema and policy; text grows at its end; every other value
//! appears when it is complete. Where the pieces are cut changes nothing but the number of frames,
//! and the last view equals what [`render`](crate::render) makes of the whole plan.

mod find;
mod grow;
mod lines;
mod text;

use serde_json::json;

use crate::check::check_to_run;
use crate::codes;
use crate::error::Error;
use crate::json::{Document, PushReader};
use crate::limits::{Limits, MAX_BYTES};
use crate::normalise;
use crate::patch::{End, Frame, Live, Patch};
use crate::plan::{LANE_WITHOUT_CODE, Plan, SPEC_VERSION};
use crate::profile::Profile;
use crate::render::{Context, SURELY_FITS_BYTES, render};
use crate::report::{Issue, Report};

use find::{Finder, Step};
use grow::{Form, Growing};

pub use lines::{LineIssue, Lines, LinesOutcome};

/// Id of a plan that was written as a node alone, unless the host gives another.
const NODE_ID: &str = "node";

/// Code that was found in a fence. It is data: nothing here runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// `js`, `jsx`, `ts` or `tsx`.
    pub language: &'static str,
    /// The text inside the fence.
    pub code: String,
}

/// How a stream ended.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// The last frame; it carries the end.
    pub frame: Frame,
    /// The plan, when it is complete and accepted.
    pub plan: Option<Plan>,
    /// What the check says, when there is a plan to check.
    pub report: Option<Report>,
    /// Why the text is no complete plan.
    pub error: Option<Error>,
    /// Text before the plan.
    pub before: String,
    /// Text behind it.
    pub after: String,
    /// Code from a fence.
    pub source: Option<Source>,
    /// Whether the plan was written with habits that have one meaning, such as `"type": "p"`, and was
    /// read by it. It is shown with the last frame.
    pub normalised: bool,
}

enum State<'c> {
    Searching,
    /// An object that may be the plan; its text is kept while it may turn out to be none.
    Trying(Box<Reading<'c>>, String),
    Reading(Box<Reading<'c>>),
    /// The plan is complete.
    Behind(Box<Reading<'c>>),
    /// The text of the plan broke off with this error.
    Broken(Box<Reading<'c>>, Error),
}

struct Reading<'c> {
    reader: PushReader,
    growing: Growing<'c>,
    /// Bytes of the plan so far.
    bytes: usize,
}

impl Reading<'_> {
    /// Reads a piece and answers how much of it belongs to the plan.
    ///
    /// # Errors
    ///
    /// The text is no JSON, or larger or deeper than the profile allows: then nothing of it is shown
    /// any more.
    fn push(&mut self, text: &str, limits: &Limits) -> Result<usize, Error> {
        let read = self.reader.push(text, &mut self.growing).and_then(|used| {
            self.bytes += used;
            if self.bytes <= limits.bytes {
                return Ok(used);
            }
            Err(Error::new(codes::TOO_LARGE, "the plan is too large")
                .why(format!("bytes: limit {}", limits.bytes))
                .with("limit", "bytes")
                .with("max", limits.bytes))
        });
        if let Err(error) = &read
            && (error.is(codes::TOO_LARGE) || error.is(codes::TOO_DEEP))
        {
            self.growing.refuse(Report::of(error));
        }
        read
    }
}

/// Shows a plan while it arrives.
///
/// ```
/// use glasshouse_plan::{Context, Profile, ProfileName};
/// use glasshouse_plan::patch::{End, Screen};
/// use glasshouse_plan::stream::Stream;
///
/// let profile = Profile::named(ProfileName::Strict);
/// let context = Context::new("s1")?;
/// let mut stream = Stream::new(1, &profile, &context);
/// let mut screen = Screen::default();
/// let text = r#"{"specVersion":"runtime-plan/v1","id":"x","version":1,
///     "root":{"type":"element","tag":"p","children":[{"type":"text","value":"Hello"}]}}"#;
/// for piece in text.as_bytes().chunks(7) {
///     stream.push(piece);
///     if let Some(frame) = stream.frame() {
///         screen.accept(&frame)?;
///     }
/// }
/// let outcome = stream.finish();
/// screen.accept(&outcome.frame)?;
/// assert_eq!(outcome.end, End::Complete);
/// assert_eq!(screen.view().markup(), "<p>Hello</p>");
/// # Ok::<(), glasshouse_plan::Error>(())
/// ```
pub struct Stream<'c> {
    profile: &'c Profile,
    context: &'c Context<'c>,
    /// Limits of the plan.
    limits: Limits,
    /// Longest answer around it.
    answer_bytes: usize,
    node_id: String,
    /// Lanes of the host that shows the plan.
    lanes: &'c [&'c str],
    run: u64,
    seq: u64,
    /// The first bytes of a character whose last have not arrived.
    carry: Vec<u8>,
    bytes: usize,
    finder: Finder,
    state: State<'c>,
    before: String,
    /// Whether a frame with a root has been taken.
    root_sent: bool,
    /// Why the last object that was tried is no plan.
    tried: Option<Error>,
}

impl<'c> Stream<'c> {
    /// A stream for one answer. A later run of the same surface needs a larger number. The state is
    /// the plan's own initial one; one in the context is not read.
    #[must_use]
    pub fn new(run: u64, profile: &'c Profile, context: &'c Context<'c>) -> Self {
        Self {
            profile,
            context,
            limits: profile.limits(),
            answer_bytes: MAX_BYTES,
            node_id: NODE_ID.to_owned(),
            lanes: &[],
            run,
            seq: 0,
            carry: Vec::new(),
            bytes: 0,
            finder: Finder::new(profile.max_runtime_source_bytes),
            state: State::Searching,
            before: String::new(),
            root_sent: false,
            tried: None,
        }
    }

    /// Reads within these limits, and within those of the profile.
    #[must_use]
    pub fn limits(mut self, limits: &Limits) -> Self {
        self.answer_bytes = limits.clamped().bytes;
        self.limits = limits.clamped().within(&self.profile.limits());
        self
    }

    /// The id of the plan when the answer is a node alone.
    #[must_use]
    pub fn node_id(mut self, id: &str) -> Self {
        id.clone_into(&mut self.node_id);
        self
    }

    /// Accepts a plan whose code a host with these lanes can run. Its own root is shown; what its code
    /// makes of it is for the host to show.
    #[must_use]
    pub fn lanes(mut self, lanes: &'c [&'c str]) -> Self {
        self.lanes = lanes;
        self
    }

    /// Takes the next bytes. What they show is in the next [`frame`](Self::frame).
    pub fn push(&mut self, bytes: &[u8]) {
        if self.carry.is_empty() {
            return self.decode(bytes);
        }
        let carry = std::mem::take(&mut self.carry);
        self.decode(&[&carry, bytes].concat());
    }

    fn decode(&mut self, bytes: &[u8]) {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.text(text),
            Err(error) => {
                let (good, rest) = bytes.split_at(error.valid_up_to());
                self.text(&String::from_utf8_lossy(good));
                match error.error_len() {
                    None => self.carry = rest.to_vec(),
                    Some(_) => {
                        let error = Error::new(codes::JSON_INVALID, "the plan is not text")
                            .why("it is not UTF-8");
                        self.stop(error);
                    }
                }
            }
        }
    }

    fn text(&mut self, text: &str) {
        let mut room = (self.answer_bytes - self.bytes).min(text.len());
        while !text.is_char_boundary(room) {
            room -= 1;
        }
        self.bytes += room;
        self.within(&text[..room]);
        if room < text.len() {
            let error = Error::new(codes::TOO_LARGE, "the answer is too long")
                .why(format!("limit {} bytes", self.answer_bytes))
                .with("limit", "bytes")
                .with("max", self.answer_bytes);
            self.stop(error);
        }
    }

    fn within(&mut self, mut text: &str) {
        while !text.is_empty() {
            match &mut self.state {
                State::Searching => match self.finder.search(text) {
                    Step::Text => return,
                    Step::Object(at) => {
                        text = &text[at..];
                        self.state = State::Trying(Box::new(self.reading()), String::new());
                    }
                },
                State::Trying(..) => text = self.try_one(text),
                State::Reading(reading) => {
                    match reading.push(text, &self.limits) {
                        Ok(used) => text = &text[used..],
                        Err(error) => return self.stop(error),
                    }
                    if reading.reader.is_done() {
                        self.step(State::Behind);
                    }
                }
                State::Behind(_) => return self.finder.keep(text),
                State::Broken(..) => return,
            }
        }
    }

    fn reading(&self) -> Reading<'c> {
        Reading {
            reader: PushReader::new(&self.limits),
            growing: Growing::new(self.profile, self.context, &self.limits),
            bytes: 0,
        }
    }

    /// Moves the plan that is being read into another state.
    fn step(&mut self, next: impl FnOnce(Box<Reading<'c>>) -> State<'c>) {
        match std::mem::replace(&mut self.state, State::Searching) {
            State::Trying(reading, _)
            | State::Reading(reading)
            | State::Behind(reading)
            | State::Broken(reading, _) => self.state = next(reading),
            State::Searching => {}
        }
    }

    /// Reads one character of an object that may be no plan, and answers the rest.
    fn try_one<'t>(&mut self, text: &'t str) -> &'t str {
        let State::Trying(reading, tried) = &mut self.state else { return text };
        let end = text.chars().next().map_or(0, char::len_utf8);
        let (first, rest) = text.split_at(end);
        let failed = reading.push(first, &self.limits).err();
        let wrong = failed.is_some() || reading.growing.refusal().is_some();
        let known = reading.growing.form() != Form::Unknown;
        if known && failed.is_none() {
            self.before = self.finder.take_before();
            let done = reading.reader.is_done();
            self.step(if done { State::Behind } else { State::Reading });
            return rest;
        }
        if wrong || reading.reader.is_done() {
            let mut tried = std::mem::take(tried);
            if !wrong {
                tried.push_str(first);
            }
            self.tried = failed.or_else(|| Some(no_plan("the object is no plan and no node")));
            self.finder.give_back(&tried);
            self.state = State::Searching;
            // What an object cannot hold is looked at again as text.
            return if wrong { text } else { rest };
        }
        tried.push_str(first);
        rest
    }

    /// Ends the reading of the plan; what is shown stays.
    fn stop(&mut self, error: Error) {
        let state = std::mem::replace(&mut self.state, State::Searching);
        let reading = match state {
            State::Trying(reading, _) | State::Reading(reading) => reading,
            State::Searching => Box::new(self.reading()),
            // The first error counts, and what is behind a plan does not.
            state @ (State::Behind(_) | State::Broken(..)) => {
                self.state = state;
                return;
            }
        };
        self.state = State::Broken(reading, error);
    }

    /// Why the plan will not be accepted, as soon as that is certain. The rest of the answer can be
    /// spared; pushing it anyway completes the report.
    #[must_use]
    pub fn refusal(&self) -> Option<&Issue> {
        match &self.state {
            State::Searching | State::Trying(..) => None,
            State::Reading(reading) | State::Behind(reading) | State::Broken(reading, _) => {
                reading.growing.refusal()
            }
        }
    }

    /// What has changed since the last frame, if anything has.
    pub fn frame(&mut self) -> Option<Frame> {
        let patches = self.patches();
        if patches.is_empty() {
            return None;
        }
        Some(self.number(patches, None))
    }

    fn number(&mut self, patches: Vec<Patch>, end: Option<End>) -> Frame {
        let seq = self.seq;
        self.seq += 1;
        Frame { run: self.run, seq, patches, end }
    }

    fn patches(&mut self) -> Vec<Patch> {
        let growing = match &mut self.state {
            State::Searching | State::Trying(..) => return Vec::new(),
            State::Reading(reading) | State::Behind(reading) | State::Broken(reading, _) => {
                &mut reading.growing
            }
        };
        if growing.refusal().is_some() {
            return self.take_back();
        }
        let patches = std::mem::take(&mut growing.patches);
        self.root_sent |= !patches.is_empty();
        patches
    }

    /// Patches after which nothing is shown.
    fn take_back(&mut self) -> Vec<Patch> {
        if std::mem::take(&mut self.root_sent) { vec![Patch::Del { id: 0 }] } else { Vec::new() }
    }

    /// Ends the answer. The whole plan is checked once more, by the rules that
    /// [`render`](crate::render) asks: a plan that they refuse is taken back.
    #[must_use]
    pub fn finish(mut self) -> Outcome {
        let sent = self.root_sent;
        let mut patches = self.patches();
        if !self.carry.is_empty() {
            self.stop(
                Error::new(codes::JSON_INVALID, "the plan is not text").why("it is cut short"),
            );
        }
        let (mut plan, mut report, mut error) = (None, None, None);
        let mut normalised = false;
        let found = !matches!(self.state, State::Searching | State::Trying(..));
        let mut end = match std::mem::replace(&mut self.state, State::Searching) {
            State::Searching | State::Trying(..) => {
                error = self.tried.take();
                error.get_or_insert_with(|| no_plan("no plan was found"));
                End::Incomplete
            }
            State::Reading(reading) => {
                error = Some(reading.reader.incomplete());
                ended(&reading.growing, &mut report)
            }
            State::Broken(reading, why) => {
                let twice = why.is(codes::KEY_DUPLICATE);
                if twice {
                    report = Some(Report::of(&why));
                }
                error = Some(why);
                if twice { End::Refused } else { ended(&reading.growing, &mut report) }
            }
            State::Behind(reading) => match self.whole(*reading) {
                Ok((whole, checked, repaired)) => {
                    let safe = checked.safe;
                    normalised = safe && repaired;
                    plan = Some(whole).filter(|_| safe);
                    report = Some(checked);
                    if safe { End::Complete } else { End::Refused }
                }
                Err(why) => {
                    report = Some(Report::of(&why));
                    End::Refused
                }
            },
        };
        if end == End::Refused || normalised {
            self.root_sent = sent;
            patches = self.take_back();
        }
        if let Some(whole) = plan.as_ref().filter(|_| normalised) {
            match self.all_of(whole) {
                Ok(all) => patches.extend(all),
                Err(why) => {
                    (end, plan, normalised) = (End::Refused, None, false);
                    report = Some(Report::of(&why));
                }
            }
        }
        let (mut before, mut after) = (std::mem::take(&mut self.before), String::new());
        if found {
            after = self.finder.take_after()
        } else {
            before = self.finder.take_before()
        }
        let source = self.finder.take_source();
        let frame = self.number(patches, Some(end));
        Outcome { end, frame, plan, report, error, before, after, source, normalised }
    }

    /// The plan that was read to its end, what the check says about it, and whether it was read by its
    /// habits.
    fn whole(&self, reading: Reading<'_>) -> Result<(Plan, Report, bool), Error> {
        let bare = reading.growing.form() == Form::Node;
        let refusal = reading.growing.refusal().cloned();
        let shown_bytes = reading.growing.shown_bytes();
        let (plan, repaired) = self.plan(reading, bare)?;
        let mut report = check_to_run(&plan, self.profile, self.lanes);
        if let Some(issue) = refusal.filter(|_| report.safe && !repaired) {
            // What it shows is too much, whatever the plan itself is.
            report = Report::of_issue(issue);
        }
        if report.safe && shown_bytes > SURELY_FITS_BYTES {
            render(&without_code(&plan, &self.limits)?, self.profile, self.context)?;
        }
        Ok((plan, report, repaired))
    }

    /// Everything of a plan that was accepted.
    fn all_of(&self, plan: &Plan) -> Result<Vec<Patch>, Error> {
        Live::new(without_code(plan, &self.limits)?, self.profile, self.context)?
            .first(self.context)
    }

    /// The plan, and whether it had to be read by its habits.
    fn plan(&self, reading: Reading<'_>, bare: bool) -> Result<(Plan, bool), Error> {
        let refused = reading.growing.refusal().is_some();
        let document = reading.reader.into_document();
        // Only a plan that was refused while it came may need another reading.
        let value = refused.then(|| document.root().to_value());
        let (value, error) = match (self.as_written(document, bare), value) {
            (Err(error), Some(value)) if error.is(codes::SHAPE_INVALID) => (value, error),
            (read, _) => return read.map(|plan| (plan, false)),
        };
        // The document is in memory and is gone over once, however it arrived.
        let whole = if bare {
            let root = normalise::node(&value);
            root.map(|root| {
                json!({"specVersion": SPEC_VERSION, "id": self.node_id, "version": 1, "root": root})
            })
        } else {
            normalise::plan(&value, None)
        };
        let whole = whole.ok_or(error)?;
        Ok((crate::plan::parse(&whole.to_string(), &self.limits)?, true))
    }

    fn as_written(&self, document: Document, bare: bool) -> Result<Plan, Error> {
        if !bare {
            return Plan::of(document, &self.limits);
        }
        // A node alone is read once more, inside the plan that it lacks.
        let text = |error: serde_json::Error| {
            Error::new(codes::SHAPE_INVALID, "the node cannot be written").why(error)
        };
        let root = serde_json::to_string(&document.root()).map_err(text)?;
        let id = serde_json::to_string(&self.node_id).map_err(text)?;
        let text =
            format!(r#"{{"specVersion":"{SPEC_VERSION}","id":{id},"version":1,"root":{root}}}"#);
        crate::plan::parse(&text, &self.limits)
    }
}

/// What is shown of a plan before its code has run.
fn without_code(plan: &Plan, limits: &Limits) -> Result<Plan, Error> {
    if plan.source().is_none() && plan.lane() == LANE_WITHOUT_CODE {
        return Ok(plan.clone());
    }
    plan.after_code(None, limits)
}

fn no_plan(why: &str) -> Error {
    Error::new(codes::INCOMPLETE, "the text holds no plan").why(why)
}

/// How a plan ends whose text broke off.
fn ended(growing: &Growing<'_>, report: &mut Option<Report>) -> End {
    match growing.refusal() {
        None => End::Incomplete,
        Some(issue) => {
            *report = Some(Report::of_issue(issue.clone()));
            End::Refused
        }
    }
}
