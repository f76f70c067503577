//! Lines: a plan that arrives as changes, one JSON object a line.
//!
//! A change that does not fit, or that would show what is refused, is left out and named with its
//! line; the lines behind it are still read. What is shown is always what the document holds.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::text::Cursor;
use crate::attributes::Showing;
use crate::change::{self, Change, Op, Pointer};
use crate::check::{NodeRules, check_to_show, too_many};
use crate::codes;
use crate::error::Error;
use crate::json::{Document, Members};
use crate::limits::Limits;
use crate::patch::{
    Content, End, Frame, Item, Items, NodeId, Patch, View, first_patches, item_patches, text_patch,
};
use crate::plan::{Plan, SPEC_VERSION};
use crate::profile::Profile;
use crate::render::{Context, MAX_OUTPUT_BYTES};
use crate::report::{Issue, MAX_ISSUES, Report};
use crate::rules::Refusal;
use crate::rules::element::{self, ElementId};
use crate::rules::nesting::Around;
use crate::template::{any_text, is_templated};
use crate::tree::{NodeKind, Tree};

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
    run: u64,
    seq: u64,
    /// The line under way.
    line: Vec<u8>,
    number: usize,
    bytes: usize,
    document: Value,
    /// At least the size of the document; measured again when it reaches the limit.
    document_bytes: usize,
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
            limits: Limits::default(),
            run,
            seq: 0,
            line: Vec::new(),
            number: 0,
            bytes: 0,
            document: serde_json::json!({"specVersion": SPEC_VERSION, "id": id, "version": 1}),
            document_bytes: 0,
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

    /// Takes the next bytes. A line has an effect when its end has arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            // Past the limit lines are counted but no longer kept.
            let room = self.limits.bytes.saturating_sub(self.bytes).min(part.len());
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
            let max = self.limits.bytes;
            Some(issue(
                &Error::new(codes::TOO_LARGE, "the answer is too long")
                    .why(format!("limit {max} bytes")),
            ))
        } else {
            match std::str::from_utf8(&line) {
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
        let change = Change::read(text.trim()).map_err(|error| issue(&readable(error)))?;
        let undo = change::apply(&mut self.document, &change).map_err(|error| issue(&error))?;
        // In the order in which it happened: a move takes away before it adds.
        if change.op == Op::Move && self.move_child(&change.from, &undo[0].path)? {
            return Ok(());
        }
        let steps: Vec<(Pointer, Step)> =
            undo.iter().rev().map(|undo| (undo.path.clone(), Step::undone_by(undo.op))).collect();
        let mut shown = 0;
        let result = self.within_limits(&change).and_then(|()| {
            steps.iter().try_for_each(|(path, step)| {
                self.show(path, *step)?;
                shown += 1;
                Ok(())
            })
        });
        let Err(issue) = result else { return Ok(()) };
        for change in &undo {
            // What was there before fits the document and passed; it does so again.
            let _ = change::apply(&mut self.document, change);
        }
        let _ = self.read_state();
        for (path, step) in steps[..shown].iter().rev() {
            let _ = self.show(path, step.back());
        }
        Err(issue)
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

    /// Brings the view to what the document holds at a place that changed.
    fn show(&mut self, path: &Pointer, step: Step) -> Result<(), Issue> {
        let tokens = path.tokens();
        match tokens.first().map(String::as_str) {
            None => {
                self.read_state()?;
                self.rebuild(&Pointer::default().join("root"), None)
            }
            Some("state") => self.read_state(),
            Some("root") => self.show_in_tree(path, step),
            Some(_) => Ok(()),
        }
    }

    fn show_in_tree(&mut self, path: &Pointer, step: Step) -> Result<(), Issue> {
        let tokens = path.tokens();
        let mut at = 1;
        let mut id = self.view.root();
        loop {
            let node = path.first(at);
            let Some(here) = id.filter(|_| at < tokens.len()) else {
                return self.rebuild(&node, id);
            };
            let child = tokens.get(at + 1).filter(|_| tokens[at] == "children");
            let Some(index) = child.and_then(|token| crate::path::index(token)) else {
                return match tokens[at].as_str() {
                    "props" => self.show_properties(&node, here),
                    "value" => self.show_text(&node, here),
                    _ => self.rebuild(&node, id),
                };
            };
            if at + 2 == tokens.len() {
                return self.show_child(path, here, index, step);
            }
            id = self.child(here, index);
            at += 2;
        }
    }

    fn child(&self, id: NodeId, index: usize) -> Option<NodeId> {
        self.view.shown(id)?.children.get(index).copied()
    }

    fn show_child(
        &mut self,
        path: &Pointer,
        parent: NodeId,
        index: usize,
        step: Step,
    ) -> Result<(), Issue> {
        let here = self.child(parent, index);
        let (gone, before) = match step {
            Step::Added => (None, here),
            Step::Removed => return self.commit(here, Built::default()),
            Step::Replaced => (here, self.child(parent, index + 1)),
        };
        let built = self.build(path, Some(parent), before, gone)?;
        self.commit(gone, built)
    }

    /// Shows a whole node anew, if the document still has it.
    fn rebuild(&mut self, path: &Pointer, id: Option<NodeId>) -> Result<(), Issue> {
        let id = if path.tokens().len() == 1 { self.view.root() } else { id };
        if change::find(&self.document, path).is_none() {
            return self.commit(id, Built::default());
        }
        let parent = id.and_then(|id| self.view.shown(id)).and_then(|node| node.parent);
        let behind = parent.and_then(|parent| {
            let siblings = &self.view.shown(parent)?.children;
            let at = siblings.iter().position(|sibling| Some(*sibling) == id)?;
            siblings.get(at + 1).copied()
        });
        let built = self.build(path, parent, behind, id)?;
        self.commit(id, built)
    }

    fn commit(&mut self, gone: Option<NodeId>, built: Built) -> Result<(), Issue> {
        let mut patches: Vec<Patch> = gone.map(|id| Patch::Del { id }).into_iter().collect();
        patches.extend(built.patches);
        self.shown_bytes += built.bytes;
        self.next = self.next.max(built.next);
        self.apply(patches)?;
        self.bound.extend(built.bound);
        if gone.is_some() {
            let view = &self.view;
            self.bound.retain(|id, _| view.shown(*id).is_some());
        }
        Ok(())
    }

    fn apply(&mut self, patches: Vec<Patch>) -> Result<(), Issue> {
        self.view.apply(&patches).map_err(|error| issue(&error))?;
        self.patches.extend(patches);
        Ok(())
    }

    /// Refuses to show more than a page may hold.
    fn room_for(&mut self, bytes: usize) -> Result<(), Issue> {
        if self.shown_bytes + bytes > MAX_OUTPUT_BYTES {
            self.shown_bytes = self.view.value_bytes();
        }
        if self.shown_bytes + bytes <= MAX_OUTPUT_BYTES {
            return Ok(());
        }
        let error = Error::new(codes::OUTPUT_TOO_LARGE, "the shown text is too large");
        Err(issue(&error.why(format!("limit {MAX_OUTPUT_BYTES} bytes"))))
    }

    /// The patches that show a part of the document, if schema and policy let it be shown.
    fn build(
        &mut self,
        path: &Pointer,
        parent: Option<NodeId>,
        before: Option<NodeId>,
        gone: Option<NodeId>,
    ) -> Result<Built, Issue> {
        let (mut around, depth) = self.around(parent);
        let at = path.to_string();
        let document = self.parsed(path)?;
        let tree =
            Tree::read(document.root(), &at, self.limits.nodes).map_err(|error| issue(&error))?;
        let stays = self.view.node_count() - gone.map_or(0, |id| self.view.size_of(id));
        let count = stays + tree.entries.len();
        if count > self.profile.max_node_count {
            return Err(refused(at, Refusal::new(codes::TOO_LARGE, too_many(count, self.profile))));
        }
        let mut built = Built { next: self.next, ..Built::default() };
        let first = self.next;
        for (index, entry) in (0u32..).zip(&tree.entries) {
            let level = usize::from(entry.depth);
            around.truncate(level + 1);
            let outside = around.last().copied().unwrap_or_default();
            let pointer = || tree.pointer(index, &at);
            let refuse = |refusal| refused(pointer(), refusal);
            self.rules.depth(depth + level).map_err(refuse)?;
            let id = first + index;
            let name = entry.name_in(&document);
            let (node, items, inside) = match entry.kind {
                NodeKind::Component => return Err(refuse(NodeRules::component_in_stream())),
                NodeKind::Text => {
                    NodeRules::text(outside, name).map_err(refuse)?;
                    if is_templated(name) {
                        built.bound.push((id, Bound::Text(name.to_owned())));
                    }
                    (Content::Text(self.text(name)), Items::default(), outside)
                }
                NodeKind::Element => {
                    let row = self.rules.tag(name, entry.element).map_err(refuse)?;
                    NodeRules::nesting(outside, row).map_err(refuse)?;
                    let properties = entry.props_in(&document);
                    let items = self.items(row, properties.clone(), &pointer)?;
                    if properties.into_iter().flatten().any(|(_, it)| any_text(it, is_templated)) {
                        let props = pointer_of(&pointer())?.join("props");
                        built.bound.push((id, Bound::Properties(row, self.parsed(&props)?)));
                    }
                    (Content::Tag(row.name().into()), items, outside.inside(row))
                }
            };
            around.push(inside);
            built.bytes +=
                items.bytes + if let Content::Text(text) = &node { text.len() } else { 0 };
            let (above, before) =
                if level == 0 { (parent, before) } else { (Some(first + entry.parent), None) };
            built.patches.push(Patch::Ins { id, parent: above, before, node });
            first_patches(id, items.list, &mut built.patches);
            built.patches.push(Patch::Ready { id });
            built.next = id + 1;
            self.room_for(built.bytes)?;
        }
        Ok(built)
    }

    /// A part of the document in the form that rules read.
    fn parsed(&self, path: &Pointer) -> Result<Document, Issue> {
        let value = change::find(&self.document, path).unwrap_or(&Value::Null);
        Document::parse(&value.to_string(), &self.limits).map_err(|error| issue(&error))
    }

    /// What is around the children of a node, and how deep they are.
    fn around(&self, parent: Option<NodeId>) -> (Vec<Around>, usize) {
        let mut tags = Vec::new();
        let mut id = parent;
        while let Some(node) = id.and_then(|id| self.view.shown(id)) {
            if let Content::Tag(tag) = &node.content {
                tags.extend(element::find(tag));
            }
            id = node.parent;
        }
        let inside = tags.iter().rev().fold(Around::default(), |around, row| around.inside(*row));
        (vec![inside], tags.len())
    }

    fn items(
        &self,
        row: ElementId,
        properties: Option<Members<'_>>,
        node: &dyn Fn() -> String,
    ) -> Result<Items, Issue> {
        if let Some(properties) = &properties {
            let mut report = Report::new();
            self.rules.properties(row, properties, &|| format!("{}/props", node()), &mut report);
            if let Some(issue) = report.issues.into_iter().next() {
                return Err(issue);
            }
        }
        let mut items = Items::default();
        self.showing().show(row, properties, &mut items).map_err(|error| issue(&error))?;
        Ok(items)
    }

    fn showing(&self) -> Showing<'_> {
        Showing {
            profile: self.profile,
            surface: self.context.surface(),
            scope: self.state.as_ref().map(|state| self.context.scope(state)),
            templates: true,
        }
    }

    /// A text as it can be shown now.
    fn text(&self, raw: &str) -> String {
        let scope = self.state.as_ref().map(|state| self.context.scope(state));
        let mut text = String::new();
        Cursor::default().advance(raw, true, scope.as_ref(), &mut text);
        text
    }

    fn show_properties(&mut self, path: &Pointer, id: NodeId) -> Result<(), Issue> {
        let Some(shown) = self.view.shown(id) else { return Ok(()) };
        let Content::Tag(tag) = &shown.content else { return self.rebuild(path, Some(id)) };
        let Some(row) = element::find(tag) else { return Ok(()) };
        let props = path.join("props");
        if change::find(&self.document, &props).is_none_or(|props| !props.is_object()) {
            return self.rebuild(path, Some(id));
        }
        let document = self.parsed(&props)?;
        let properties = document.root().as_object();
        let items = self.items(row, properties, &|| path.to_string())?;
        self.room_for(items.bytes)?;
        let mut patches = Vec::new();
        item_patches(id, &shown_items(&self.view, id), &items.list, &mut patches);
        self.shown_bytes += items.bytes;
        self.apply(patches)?;
        if any_text(document.root(), is_templated) {
            self.bound.insert(id, Bound::Properties(row, document));
        } else {
            self.bound.remove(&id);
        }
        Ok(())
    }

    fn show_text(&mut self, path: &Pointer, id: NodeId) -> Result<(), Issue> {
        let parent = self.view.shown(id).and_then(|node| node.parent);
        let value = change::find(&self.document, &path.join("value")).and_then(Value::as_str);
        let (Some(raw), Some(Content::Text(old))) =
            (value, self.view.shown(id).map(|node| &node.content))
        else {
            return self.rebuild(path, Some(id));
        };
        let outside = self.around(parent).0.last().copied().unwrap_or_default();
        NodeRules::text(outside, raw).map_err(|refusal| refused(path.to_string(), refusal))?;
        let new = self.text(raw);
        let raw = raw.to_owned();
        let patch = text_patch(id, old, &new);
        self.room_for(new.len())?;
        self.shown_bytes += new.len();
        self.apply(patch.into_iter().collect())?;
        if is_templated(&raw) {
            self.bound.insert(id, Bound::Text(raw));
        } else {
            self.bound.remove(&id);
        }
        Ok(())
    }

    /// Reads the state again and shows what depends on it.
    fn read_state(&mut self) -> Result<(), Issue> {
        let state = self.document.pointer("/state/initial").and_then(Value::as_object);
        if state == self.state.as_ref() {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.state, state.cloned());
        let result = self.show_bound();
        if result.is_err() {
            self.state = before;
        }
        result
    }

    fn show_bound(&mut self) -> Result<(), Issue> {
        let mut patches = Vec::new();
        let mut bytes = 0;
        for (id, bound) in &self.bound {
            let Some(shown) = self.view.shown(*id) else { continue };
            match (bound, &shown.content) {
                (Bound::Text(raw), Content::Text(old)) => {
                    let new = self.text(raw);
                    bytes += new.len();
                    patches.extend(text_patch(*id, old, &new));
                }
                (Bound::Properties(row, document), Content::Tag(_)) => {
                    let mut items = Items::default();
                    self.showing()
                        .show(*row, document.root().as_object(), &mut items)
                        .map_err(|error| issue(&error))?;
                    bytes += items.bytes;
                    item_patches(*id, &shown.items, &items.list, &mut patches);
                }
                _ => {}
            }
            if bytes > MAX_OUTPUT_BYTES {
                let error = Error::new(codes::OUTPUT_TOO_LARGE, "the shown text is too large");
                return Err(issue(&error));
            }
        }
        self.room_for(bytes)?;
        self.shown_bytes += bytes;
        self.apply(patches)
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
        if !self.line.is_empty() {
            self.end_line(false);
        }
        if self.state.is_none() {
            self.state = Some(Map::new());
            // What is larger than a page stays as it is and fails with the whole.
            let _ = self.show_bound();
        }
        let mut patches = std::mem::take(&mut self.patches);
        let (mut plan, mut report, mut error) = (None, None, None);
        let end = match crate::plan::parse(&self.document.to_string(), &self.limits) {
            Err(why) => {
                error = Some(why);
                End::Incomplete
            }
            Ok(whole) => {
                let checked = check_to_show(&whole, self.profile);
                let safe = checked.safe;
                plan = Some(whole).filter(|_| safe);
                report = Some(checked);
                if safe { End::Complete } else { End::Refused }
            }
        };
        if end == End::Refused {
            patches.extend(self.view.root().map(|id| Patch::Del { id }));
        }
        let frame = self.numbered(patches, Some(end));
        let Self { left_out, left_out_count, .. } = self;
        LinesOutcome { end, frame, plan, report, error, left_out, left_out_count }
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

    fn back(self) -> Self {
        match self {
            Self::Added => Self::Removed,
            Self::Removed => Self::Added,
            Self::Replaced => Self::Replaced,
        }
    }
}

/// Nodes that are ready to be shown.
#[derive(Default)]
struct Built {
    patches: Vec<Patch>,
    bound: Vec<(NodeId, Bound)>,
    bytes: usize,
    next: NodeId,
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

fn refused(pointer: String, refusal: Refusal) -> Issue {
    let Refusal { code, why } = refusal;
    Issue { code: code.name, pointer, message: why.into_owned(), fix: code.fix.to_owned() }
}

/// Text that is no JSON is a line that cannot be read, whatever is wrong with it.
fn readable(error: Error) -> Error {
    if error.is(codes::JSON_INVALID) || error.is(codes::KEY_DUPLICATE) {
        return Error::new(codes::LINE_INVALID, "a line cannot be read").why(error);
    }
    error
}

fn pointer_of(text: &str) -> Result<Pointer, Issue> {
    Pointer::parse(text).map_err(|error| issue(&error))
}

fn shown_items(view: &View, id: NodeId) -> Vec<Item> {
    view.shown(id).map(|node| node.items.clone()).unwrap_or_default()
}
