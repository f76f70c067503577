//! `glasshouse ui stream`: a plan shown while its text arrives.

use std::io::Read;
use std::time::{Duration, Instant};

use glasshouse_kernel::plans::{Coded, LANES};
use glasshouse_model::Exit;
use glasshouse_model::body::PlanCode;
use glasshouse_plan::patch::{End, Frame, Live, Patch, Screen};
use glasshouse_plan::stream::{LineIssue, Lines, Stream};
use glasshouse_plan::{Context, ErrorReport, Plan, Profile, ProfileName, Report, check_to_run};
use serde::Serialize;

use super::{SURFACE, fault, runs};
use crate::args::StreamArguments;
use crate::error::Error;
use crate::{input, output};

/// The run of a command that makes only one.
const RUN: u64 = 1;

/// The last line of data.
#[derive(Serialize)]
struct Summary {
    end: End,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlanName>,
    frames: u64,
    patches: usize,
    nodes: usize,
    #[serde(skip_serializing_if = "String::is_empty")]
    before: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    after: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<SourceShown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    script: Option<PlanCode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<Report>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<LineIssue>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    normalised: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<Timings>,
}

#[derive(Serialize)]
struct PlanName {
    id: String,
    version: i64,
}

#[derive(Serialize)]
struct SourceShown {
    language: &'static str,
    bytes: usize,
}

/// Where the time of a stream went.
#[derive(Serialize, Default)]
struct Timings {
    bytes: usize,
    pieces: usize,
    /// Bytes after which the first node was there.
    first_node_bytes: Option<usize>,
    first_node_us: Option<u64>,
    push_us: u64,
    slowest_push_us: u64,
    finish_us: u64,
}

/// Either form in which a plan arrives.
enum Source<'c> {
    Document(Box<Stream<'c>>),
    Lines(Box<Lines<'c>>),
}

/// What either form ends with.
struct Ended {
    end: End,
    frame: Frame,
    plan: Option<Plan>,
    report: Option<Report>,
    error: Option<glasshouse_plan::Error>,
    before: String,
    after: String,
    source: Option<SourceShown>,
    left_out: Vec<LineIssue>,
    normalised: bool,
}

impl Source<'_> {
    fn push(&mut self, bytes: &[u8]) -> Option<Frame> {
        match self {
            Self::Document(stream) => {
                stream.push(bytes);
                stream.frame()
            }
            Self::Lines(lines) => {
                lines.push(bytes);
                lines.frame()
            }
        }
    }

    fn finish(self) -> Ended {
        match self {
            Self::Document(stream) => {
                let it = stream.finish();
                let source = it.source.map(|source| SourceShown {
                    language: source.language,
                    bytes: source.code.len(),
                });
                Ended {
                    end: it.end,
                    frame: it.frame,
                    plan: it.plan,
                    report: it.report,
                    error: it.error,
                    before: it.before,
                    after: it.after,
                    source,
                    left_out: Vec::new(),
                    normalised: it.normalised,
                }
            }
            Self::Lines(lines) => {
                let it = lines.finish();
                Ended {
                    end: it.end,
                    frame: it.frame,
                    plan: it.plan,
                    report: it.report,
                    error: it.error,
                    before: String::new(),
                    after: String::new(),
                    source: None,
                    left_out: it.left_out,
                    normalised: false,
                }
            }
        }
    }
}

/// Runs the command.
pub(super) fn run(arguments: &StreamArguments) -> Result<u8, Error> {
    let profile = arguments.profile.profile();
    let context = Context::new(SURFACE).map_err(|error| fault(&error))?;
    let mut source = if arguments.lines {
        Source::Lines(Box::new(Lines::new(RUN, &profile, &context, "plan").lanes(LANES)))
    } else {
        Source::Document(Box::new(Stream::new(RUN, &profile, &context).lanes(LANES)))
    };
    let mut show = Show { json: arguments.json, ..Show::default() };
    let mut timings = Timings::default();
    let mut input = input::open(&arguments.file, input::MAX_PLAN_BYTES)?;
    let mut buffer = vec![0; usize::from(arguments.chunk_bytes.get())];
    let begun = Instant::now();
    loop {
        let read = input.read(&mut buffer);
        let read = read.map_err(|e| input::unreadable(&arguments.file, e))?;
        if read == 0 {
            break;
        }
        let pushed = Instant::now();
        let frame = source.push(&buffer[..read]);
        let took = micros(pushed.elapsed());
        timings.push_us += took;
        timings.slowest_push_us = timings.slowest_push_us.max(took);
        timings.bytes += read;
        timings.pieces += 1;
        if let Some(frame) = frame {
            if timings.first_node_us.is_none() && frame.patches.iter().any(is_insertion) {
                timings.first_node_us = Some(micros(begun.elapsed()));
                timings.first_node_bytes = Some(timings.bytes);
            }
            show.frame(&frame)?;
        }
    }
    let finishing = Instant::now();
    let mut ended = source.finish();
    let shown = show.screen.view().node_count() > 0;
    show.script = code(&mut ended, (arguments.profile.name(), &profile), &context, shown)?;
    timings.finish_us = micros(finishing.elapsed());
    show.frame(&ended.frame)?;
    show.end(ended, arguments.timings.then_some(timings))
}

/// Runs the code of a plan that is whole and accepted; what it makes takes the place of the plan's own
/// root in the last frame. A source with faults refuses the plan; Ctrl-C stops the code.
fn code(
    ended: &mut Ended,
    (asked, profile): (ProfileName, &Profile),
    context: &Context<'_>,
    shown: bool,
) -> Result<Option<PlanCode>, Error> {
    let Some(plan) = ended.plan.take_if(|plan| plan.source().is_some()) else { return Ok(None) };
    let mut report = ended.report.take().unwrap_or_else(|| check_to_run(&plan, profile, LANES));
    super::show::inspect(&plan, profile, &mut report)?;
    let coded = match report.safe {
        true => {
            let plans = runs::running_plans(&[]).map_err(|error| runs::unrecorded(error, true))?;
            plans.run_aside(&plan, asked)?
        }
        false => None,
    };
    // An own root that was shown in frames, or comes with the last one, makes room.
    let inserted = |patch: &Patch| matches!(patch, Patch::Ins { id: 0, .. });
    let room = |frame: &mut Frame| {
        if shown || frame.patches.iter().any(inserted) {
            frame.patches.push(Patch::Del { id: 0 });
        }
    };
    let made =
        coded.map(|Coded { plan, record }| (check_to_run(&plan, profile, &[]), plan, record));
    let record = match made {
        Some((made, whole, record)) if made.safe => {
            let made_something = record.as_ref().is_some_and(|record| record.error.is_none());
            if made_something {
                let live = Live::new(whole, profile, context).map_err(|error| fault(&error))?;
                room(&mut ended.frame);
                let first = live.first(context).map_err(|error| fault(&error))?;
                ended.frame.patches.extend(first);
            }
            ended.plan = Some(plan);
            record
        }
        refused => {
            if let Some((made, ..)) = refused {
                report = made;
            }
            room(&mut ended.frame);
            ended.end = End::Refused;
            ended.frame.end = Some(End::Refused);
            None
        }
    };
    ended.report = Some(report);
    Ok(record)
}

fn is_insertion(patch: &Patch) -> bool {
    matches!(patch, Patch::Ins { .. })
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// What has been told so far.
#[derive(Default)]
struct Show {
    json: bool,
    screen: Screen,
    frames: u64,
    patches: usize,
    /// How the plan's code ran.
    script: Option<PlanCode>,
}

impl Show {
    fn frame(&mut self, frame: &Frame) -> Result<(), Error> {
        self.frames += 1;
        self.patches += frame.patches.len();
        if self.json {
            output::json_line(frame);
        }
        self.screen.accept(frame).map(drop).map_err(|error| fault(&error))
    }

    fn end(self, ended: Ended, timings: Option<Timings>) -> Result<u8, Error> {
        let status = match ended.end {
            End::Complete => Exit::Done,
            End::Incomplete => Exit::Usage,
            End::Refused => Exit::Denied,
        };
        if !self.json {
            let markup = self.screen.view().markup();
            if !markup.is_empty() {
                output::markup(&markup);
            }
            if let Some(report) = ended.report.as_ref().filter(|report| report.safe) {
                super::remark(&report.notes);
            }
            if ended.end != End::Complete {
                if let Some(report) = &ended.report {
                    super::tell(report);
                }
                if let Some(error) = &ended.error {
                    output::note(&format!("incomplete: {error}"));
                }
            }
            if let Some(code) = &self.script {
                super::remark_on_code(code);
            }
            for line in &ended.left_out {
                let issue = &line.issue;
                let why = output::visible(&issue.message, false);
                output::note(&format!("line {}: {}: {why}", line.line, issue.code));
            }
            if let Some(timings) = timings {
                output::note(&serde_json::to_string(&timings).unwrap_or_default());
            }
            return Ok(status.status());
        }
        output::json_line(&Summary {
            end: ended.end,
            plan: ended
                .plan
                .map(|plan| PlanName { id: plan.id().to_owned(), version: plan.version() }),
            frames: self.frames,
            patches: self.patches,
            nodes: self.screen.view().node_count(),
            before: ended.before,
            after: ended.after,
            source: ended.source,
            script: self.script,
            report: ended.report,
            error: ended.error.map(|error| error.report()),
            left_out: ended.left_out,
            normalised: ended.normalised,
            timings,
        });
        Ok(status.status())
    }
}
