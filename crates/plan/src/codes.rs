//! Every code that an [`Error`](crate::Error) or an [`Issue`](crate::Issue) of this crate can carry.

use crate::error::Code;

/// Exit status for input that cannot be read.
const UNREADABLE: u8 = 2;
/// Exit status for what a profile or a rule refuses.
const REFUSED: u8 = 3;
/// Exit status for a write against a state that has moved on.
const CONFLICT: u8 = 8;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $exit:expr, $fix:literal;)*) => {
        $($(#[$doc])* pub const $name: Code = Code::new($text, $exit, $fix);)*
        /// All codes, for documentation and for tests that each one has a page.
        pub const ALL: &[Code] = &[$($name),*];
    };
}

codes! {
    /// The text is not JSON.
    JSON_INVALID = "plan_json_invalid", UNREADABLE, "send one complete JSON document";
    /// An object names the same key twice.
    KEY_DUPLICATE = "plan_key_duplicate", UNREADABLE, "keep one of the two members";
    /// A number is outside what a double can hold.
    NUMBER_NOT_FINITE = "plan_number_not_finite", UNREADABLE, "use a number a double can hold";
    /// The plan is not built as a RuntimePlan is.
    SHAPE_INVALID = "plan_shape_invalid", UNREADABLE, "correct the member the pointer names";
    /// A limit on bytes, strings, values or nodes is exceeded.
    TOO_LARGE = "plan_too_large", REFUSED, "make the plan smaller";
    /// A limit on nesting is exceeded.
    TOO_DEEP = "plan_too_deep", REFUSED, "nest less deeply";
    /// The specification version is missing or unknown.
    SPEC_VERSION = "plan_spec_version", REFUSED, "set specVersion to runtime-plan/v1";
    /// The plan requires an extension that is not built.
    EXTENSION_UNSUPPORTED = "plan_extension_unsupported", REFUSED, "remove it from ext.requires";
    /// The tag is not one of those that may be shown.
    TAG_DENIED = "plan_tag_denied", REFUSED, "use an element that the documentation lists";
    /// An HTML parser would move this node somewhere else.
    NESTING_INVALID = "plan_nesting_invalid", REFUSED, "place the node where HTML allows it";
    /// The attribute can run code, load something or steal focus.
    ATTRIBUTE_DENIED = "plan_attribute_denied", REFUSED, "remove the attribute";
    /// The attribute is not known here, or its value has the wrong form; it is not shown.
    ATTRIBUTE_IGNORED = "plan_attribute_ignored", REFUSED, "remove it, or use a known attribute";
    /// A field or a picture does not say what it is.
    LABEL_MISSING = "plan_label_missing", REFUSED, "add a label, an aria-label or an alt text";
    /// An event property is not a binding.
    EVENT_INVALID = "plan_event_invalid", REFUSED,
        "write on<Event>: \"name\", or on<Event>: {\"type\": \"name\", \"payload\": {}}";
    /// No transition of the plan has the name of the event, so nothing changes; it is shown all the same.
    EVENT_UNKNOWN = "plan_event_unknown", REFUSED, "name one of state.transitions, or add it";
    /// Code gave a function as a handler, and where it ran nobody calls one; it is left out.
    HANDLER_LOST = "plan_handler_lost", REFUSED,
        "name an event of the plan, as in onClick=\"add\", and say in state.transitions what it does; functions are called only in the page of a browser's lane: `runtime: \"preact\"`, `glasshouse ui bundle` and `mount`";
    /// Nobody reads the member; it is kept all the same.
    MEMBER_UNKNOWN = "plan_member_unknown", REFUSED, "correct its name, or put it into metadata or ext";
    /// The address has a scheme or a spelling that is not accepted in this place.
    URL_DENIED = "plan_url_denied", REFUSED, "use https, a relative path or a fragment";
    /// The host is not on the profile's list.
    HOST_DENIED = "plan_host_denied", REFUSED, "use a host that the profile allows";
    /// The style could load something or run code.
    STYLE_DENIED = "plan_style_denied", REFUSED, "use plain colours, lengths and keywords";
    /// The style declaration is not on the list; it is not shown.
    STYLE_IGNORED = "plan_style_ignored", REFUSED, "use a property that the documentation lists";
    /// A template is not a path, so it is always empty.
    TEMPLATE_UNRESOLVABLE = "plan_template_unresolvable", REFUSED,
        "write {{state.name}}, {{event.payload.name}}, {{context.userId}} or {{vars.name}}";
    /// A module specifier is outside what the profile allows.
    MODULE_DENIED = "plan_module_denied", REFUSED,
        "use a module that the profile allows: `glasshouse ui pin PLAN --out PLAN` writes where a package is; what is no package goes into the source";
    /// The module can never be loaded here.
    MODULE_UNSUPPORTED = "plan_module_unsupported", REFUSED,
        "use a browser module by package name, npm: or https address";
    /// A module is not covered by the manifest.
    MANIFEST_MISSING = "plan_manifest_missing", REFUSED,
        "add the module to moduleManifest, as `glasshouse ui pin PLAN --out PLAN` does";
    /// A module has no well-formed integrity value.
    INTEGRITY_MISSING = "plan_integrity_missing", REFUSED, "add a sha256, sha384 or sha512 value";
    /// A requested capability is above what the profile grants.
    CAPABILITY_DENIED = "plan_capability_denied", REFUSED, "ask for less";
    /// A capability that no lane grants is asked for; the plan is shown without it.
    CAPABILITY_UNGRANTED = "plan_capability_ungranted", REFUSED,
        "leave it out: let an event of the plan come back later, and put data into its state";
    /// A path could reach outside plain data.
    PATH_UNSAFE = "plan_path_unsafe", REFUSED,
        "name members without __proto__, prototype or constructor";
    /// The profile does not accept source code.
    SOURCE_DENIED = "plan_source_denied", REFUSED, "describe the interface without source, or show it under a profile that runs code: `--profile trusted`";
    /// The code reaches something banned in a disguised spelling.
    SOURCE_DISGUISED = "plan_source_disguised", REFUSED, "write plain code, or do without it";
    /// A profile or its overrides cannot be read.
    PROFILE_INVALID = "plan_profile_invalid", UNREADABLE,
        "name fields of a profile, with values of their types";
    /// An import of the plan is not loaded, because no loader is there.
    IMPORT_UNRESOLVED = "plan_import_unresolved", REFUSED,
        "the plan is shown without it; remove the import if it is not needed";
    /// The plan names more imports than it may load.
    IMPORT_LIMIT = "plan_import_limit", REFUSED, "raise capabilities.maxImports, or import less";
    /// A component is not run, because no engine for it is there; its children are shown.
    COMPONENT_UNRESOLVED = "plan_component_unresolved", REFUSED,
        "use elements instead, or a host with an engine";
    /// The plan has more components than it may run.
    COMPONENT_LIMIT = "plan_component_limit", REFUSED,
        "raise capabilities.maxComponentInvocations, or use fewer components";
    /// The lane that the plan asks for does not exist on this host.
    LANE_UNAVAILABLE = "plan_lane_unavailable", REFUSED,
        "ask for no lane, or for one that is here; `glasshouse ui bundle` writes a plan for the lanes of a browser";
    /// A tenant has used up what it may run.
    QUOTA_EXCEEDED = "plan_quota_exceeded", CONFLICT, "wait until the window ends, then retry";
    /// The plan needs code to run, and no engine for it is built.
    CODE_UNSUPPORTED = "plan_code_unsupported", REFUSED,
        "use elements and state transitions instead of source";
    /// The plan was not rendered because the profile refuses it.
    UNSAFE = "plan_unsafe", REFUSED, "correct the issues in the context";
    /// The rendered text would be larger than its limit.
    OUTPUT_TOO_LARGE = "plan_output_too_large", REFUSED, "repeat large state values less often";
    /// The surface name cannot be used as an id prefix.
    SURFACE_INVALID = "plan_surface_invalid", UNREADABLE,
        "use a letter, then up to 31 letters, digits or hyphens";
    /// The event has a blank name or a payload that is too large.
    STATE_EVENT_INVALID = "plan_state_event_invalid", UNREADABLE,
        "name the event, and keep its data in the form and size that the message tells";
    /// An action names a place in an array that does not exist.
    STATE_PATH_INVALID = "plan_state_path_invalid", REFUSED,
        "use an index inside the array, or its length to append";
    /// An action would make a number that JSON cannot hold.
    STATE_NUMBER_INVALID = "plan_state_number_invalid", REFUSED, "keep the number in range";
    /// A state or a set of transitions is above its limit.
    STATE_LIMIT = "plan_state_limit", REFUSED, "keep less in the state";
    /// The state has moved on since the caller read it.
    STATE_CONFLICT = "plan_state_conflict", CONFLICT, "read the state again, then retry";
    /// The state belongs to another plan or version.
    STATE_PLAN_MISMATCH = "plan_state_plan_mismatch", CONFLICT, "start from this plan's state";
    /// A patch names a node or a place that the view does not have.
    PATCH_INVALID = "plan_patch_invalid", CONFLICT, "ask for the whole view again";
    /// A frame is missing before this one.
    FRAME_GAP = "plan_frame_gap", CONFLICT, "ask for the run again from its first frame";
    /// The text ended, or stopped being JSON, before the plan was complete.
    INCOMPLETE = "plan_incomplete", UNREADABLE, "send the whole plan";
    /// A change to a document names a place that does not exist, or a test did not hold.
    CHANGE_INVALID = "plan_change_invalid", UNREADABLE,
        "name a place that exists, or use upsert to make its parents";
    /// A line is no change that can be read.
    LINE_INVALID = "plan_line_invalid", UNREADABLE, "send one complete operation a line";
}
