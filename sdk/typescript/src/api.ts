// Written by `cargo xtask sdk` from docs/reference/openapi.json.
import { type Connection, type Lines, type More, type Server, Transport } from './runtime.ts'

/** Who caused an event. */
export type Actor = {
  /** Its id. */
  id: string
  /** Kind of principal. */
  type: PrincipalKind
}

export type ApprovalAnswer = {
  approved: boolean
  /** Digest of what the person saw. */
  digest: Digest
  lifetime_ms?: number | null
  max_uses?: number | null
  /** The `match` of a rule, in the place of the one that was offered. */
  rule?: unknown
  scope?: GrantScope | null
}

export type ApprovalAnswered = {
  approval: ApprovalName
  approved: boolean
  /** Whether a process runs the session and goes on; else it goes on when it is resumed. */
  running: boolean
  session: SessionId
}

export type ApprovalName = string

/** What an approval is asked for. */
export type ApprovalSubject = 'call' | 'merge' | 'policy'

export type Approvals = {
  approvals: Array<PendingApproval>
  /** Cursor of the next page; `null` on the last one. */
  next: string | null
}

export type Branch = {
  branch: BranchId
  created_us: number
  /** The last event that it shares with its parent. */
  fork_seq: number | null
  head: number
  head_hash: Digest
  is_imported: boolean
  last_us: number
  name: string
  parent: BranchId | null
  /** `open`, `merged` or `closed`. */
  state: string
}

export type BranchChoice = {
  /** Id or name; the main branch unless it is given. */
  branch?: string | null
}

export type BranchCosts = {
  /** The newest ones, in order. */
  answers: Array<Charge>
  branch: BranchId
  name: string
  /** How many older answers are in the totals alone. */
  older_answers: number
  total: Total
  /** The newest ones, in order. */
  turns: Array<TurnCosts>
}

/** In the form of a branch id such as b_3k9q. */
export type BranchId = string

export type Branches = {
  branches: Array<Branch>
  /** Cursor of the next page; `null` on the last one. */
  next: string | null
}

export type BranchesQuery = {
  /** Where to go on: `next` of the page before. */
  cursor?: string | null
  /** Most items of the page. */
  limit?: number | null
}

/** Changes of a call that are enough together. */
export type CallChange = {
  /** The answer then. */
  decision: Effect
  /** What to change. */
  set: Array<Edit>
}

/** `c` and the sequence of the call's `tool.proposed` event. */
export type CallId = string

export type CancelTurn = {
  branch?: string | null
}

/** A workspace path without `.`, `..`, doubled or leading slashes. */
export type CanonicalPath = string

/** One decision that would have been another. */
export type ChangedDecision = {
  /** Branch of the decision. */
  branch: BranchId
  /** Whether what was allowed would be denied. */
  breaking: boolean
  /** What the candidate decides. */
  now: Effect
  /** The candidate's reasons. */
  reasons: Array<string>
  /** Sequence of the decision. */
  seq: number
  /** Session. */
  session: SessionId
  /** What it was about, for people. */
  subject: string | null
  /** Syscall. */
  syscall: string
  /** What was decided by rules and by what they demand. */
  was: Effect
}

export type ChangedFile = {
  change: string
  /** The old path of a rename. */
  from: CanonicalPath | null
  /** Unified; `null` where only names were asked for. */
  patch: string | null
  path: CanonicalPath
}

/** One changed path. */
export type ChangedPath = {
  /** `added`, `modified`, `deleted`, `renamed`, `mode`, `symlink`, `special`. */
  change: string
  /** Path. */
  path: string
}

/** One answer and what it cost. */
export type Charge = {
  /** Cost in micro-units; absent when no price was known. */
  cost_micros?: number | null
  /** The model that answered. */
  model: string
  /** Sequence of `model.completed`. */
  seq: number
  /** Whether it was a summary of the conversation. */
  summary?: boolean
  /** Tokens by kind. */
  tokens: Record<string, number>
  /** Sequence of the turn's `turn.started`; absent outside turns. */
  turn?: number | null
}

/** A message of a chat, as the AI SDK has it. */
export type ChatMessage = {
  id: string
  metadata?: Record<string, unknown> | null
  parts: Array<Record<string, unknown>>
  /** `user` or `assistant`. */
  role: string
}

export type ChatMessages = {
  branch: BranchId
  chat: SessionId
  messages: Array<ChatMessage>
  /** Cursor of the next page; `null` on the last one. */
  next: string | null
  /** Whether one is being made; `GET /v1/chat/ID/stream` follows it. */
  running: boolean
}

export type ChatMessagesQuery = {
  /** Id or name; the main branch unless it is given. */
  branch?: string | null
  /** Where to go on: `next` of the page before. */
  cursor?: string | null
  /** Most turns of the page; each is what a user said and the answer. */
  limit?: number | null
}

export type ChatQuery = {
  /** Id or name; the main branch unless it is given. */
  branch?: string | null
}

export type ChatRequest = {
  /** Id or name; the main branch unless it is given. */
  branch?: string | null
  /** The chat: the id of a session. */
  id: string
  /** The message that is changed. */
  messageId?: string | null
  /** Messages; only the last one counts. */
  messages: Array<Record<string, unknown>>
  trigger?: Trigger
}

export type ChatStop = {
  /** Id or name; the main branch unless it is given. */
  branch?: string | null
}

/** How a head is told. */
export type Checkpoint = {
  /** The log's verifier key. */
  key: string
  /** The newest of them. */
  newest: NewestEvent | null
  /** The signed note as stored. */
  note: string
  /** Name of the log and of the key. */
  origin: string
  /** How they hash. */
  root: Digest
  /** How many events it covers. */
  size: number
}

/** A path that cannot be merged. */
export type Conflict = {
  /** More for a person: lines, other names. */
  detail?: string | null
  /** Why. */
  kind: ConflictKind
  /** The path. */
  path: CanonicalPath
}

/** Why a path cannot be merged. */
export type ConflictKind = 'content' | 'add_add' | 'modify_delete' | 'delete_modify' | 'rename_rename' | 'rename_delete' | 'mode' | 'symlink' | 'submodule' | 'binary' | 'directory_file' | 'special' | 'git_internal' | 'changed_meanwhile' | 'not_in_head' | 'not_in_index'

/** What an allowing rule demands of the act. */
export type Constraints = {
  /** Longest run, in milliseconds. */
  max_duration_ms?: number | null
  /** Largest file that may be written, in bytes. */
  max_file_size_bytes?: number | null
  /** Least isolation that the act may run with: `no-landlock`, `no-layers`, `no-cgroup` or `full`. */
  min_isolation?: string | null
  /** How often calls that a rule allows may be made, by the rule's name. */
  rates?: Record<string, Rate>
  /** Sandbox template that must be used. */
  require_sandbox?: string | null
  /** The only hosts that an interface may name, of those that its profile lists. */
  ui_hosts?: Array<string> | null
  /** Limits of that profile that are lower than its own, by their names. */
  ui_limits?: Record<string, number>
  /** Least careful profile that an interface is shown under. */
  ui_profile?: string | null
}

export type CostsQuery = {
  /** Where to go on: `next` of the page before. */
  cursor?: string | null
  /** Most items of the page. */
  limit?: number | null
}

/** The answer to a [`Call`](crate::Call). */
export type Decision = {
  /** What must hold while acting; the tightest of every allowing rule. */
  constraints?: Constraints
  /** The answer. */
  decision: Effect
  /** Digest of the policy that decided. */
  policy_version: Digest
  /** Every reason, in the order of `rules`. */
  reasons: Array<string>
  /** Every rule that contributed, in layer order then by name; independent of file order. */
  rules: Array<RuleTrace>
}

export type DeletionQuery = {
  /** Whether the blobs that only this session names stay. */
  keep_blobs?: boolean
}

/** The end of a call that was denied after it was decided on. */
export type DeniedLater = {
  /** Why, as a code. */
  code: string | null
  /** Sequence of the event. */
  seq: number
  /** Why, in words. */
  why: string
}

export type Diff = {
  /** In order of their paths. */
  changes: Array<ChangedFile>
  new: BranchId
  /** Cursor of the next page; `null` on the last one. */
  next: string | null
  old: BranchId
  /** The last event that both share. */
  shared: number
}

export type DiffQuery = {
  /** Branch to compare, by id or name; the main one unless it is given. */
  branch?: string | null
  /** Where to go on: `next` of the page before. */
  cursor?: string | null
  /** Event of it; the newest unless it is given. */
  from?: number | null
  /** Most items of the page. */
  limit?: number | null
  /** Whether patches are left out. */
  names?: boolean
  /** Event of that; the newest unless it is given. */
  to?: number | null
  /** The other branch; the same unless it is given. */
  with?: string | null
}

/** A SHA-256 digest. */
export type Digest = string

/** One value of a call that would be different. */
export type Edit = {
  /** Key as in `match`. */
  key: string
  /** What it would be; `without NAME` for a tag or label that would be absent, a JSON list for words with blanks. */
  to: string
}

/** What a decision says. */
export type Effect = 'allow' | 'require_review' | 'deny'

/** The JSON shape of [`Event`], in the order that people read. */
export type Event = {
  actor: Actor
  body: unknown
  body_hash: Digest
  branch: BranchId
  cause?: number | null
  hash: Digest
  kind: Kind
  labels?: Array<string>
  prev: Digest
  seq: number
  session: SessionId
  tenant: TenantId
  time_us: number
  trace?: string | null
  v: number
}

/** That an event is covered by a signed head, with everything that checking it needs. */
export type EventProof = {
  /** The branch that stores the event. */
  branch: BranchId
  /** The signed head that covers it. */
  checkpoint: string
  /** The event as it was hashed. */
  event: ProvedEvent
  /** Index of its leaf: how many events of the tenant were committed before it. */
  index: number
  /** The log's verifier key. Who checks should know it from elsewhere. */
  key: string
  /** Roots of the subtrees beside the way from leaf to root, the lowest first. */
  path: Array<string>
  /** Its sequence. */
  seq: number
}

/** A page of events. */
export type Events = {
  branch: BranchId
  /** In order. */
  events: Array<Event>
  /** Sequence of the branch's newest event. */
  head: number
  /** Sequence to go on with; `null` on the last page. */
  next: number | null
  session: SessionId
}

export type EventsQuery = {
  /** Id or name; the main branch unless it is given. */
  branch?: string | null
  /** First sequence. */
  from?: number | null
  /** Most events of the page. */
  limit?: number | null
}

/** A recorded decision, explained. */
export type ExplainedDecision = {
  /** Branch. */
  branch: BranchId
  /** What must hold while acting; the tightest of every allowing rule. */
  constraints?: Constraints
  /** The answer. */
  decision: Effect
  /** Where the call was denied that this decision did not deny: by an answer, for its isolation, or for what it changed. */
  denied_later?: DeniedLater | null
  /** Rules that would have spoken if one thing about the call were different. */
  nearly: Array<NearRule>
  /** Where each label of the call came from. */
  origins: Array<Origin>
  /** The least changes of the call after which the answer is another; each is enough. */
  other_call: Array<CallChange>
  /** The least change of the rules after which the answer is another. `None` where no rule that somebody writes changes it: a built-in rule, the workflow or a program decides. */
  other_rules: RuleChange | null
  /** Whether the policy that decided is in the record. Without it there is only the decision, and nothing of what would have changed it. */
  policy_recorded: boolean
  /** Digest of the policy that decided. */
  policy_version: Digest
  /** Every reason, in the order of `rules`. */
  reasons: Array<string>
  /** Every rule that contributed, in layer order then by name; independent of file order. */
  rules: Array<RuleTrace>
  /** Sequence of the decision. */
  seq: number
  /** What it was about. */
  subject: string | null
  /** Syscall. */
  syscall: string
  /** Whether other calls were left out because the rules in TypeScript would have to be asked about them: they are not asked about what was recorded, not for long, and not after a fault. */
  untried?: boolean
}

/** A decision, and what would have made it another. */
export type Explanation = {
  /** What must hold while acting; the tightest of every allowing rule. */
  constraints?: Constraints
  /** The answer. */
  decision: Effect
  /** Rules that would have spoken if one thing about the call were different. */
  nearly: Array<NearRule>
  /** The least changes of the call after which the answer is another; each is enough. */
  other_call: Array<CallChange>
  /** The least change of the rules after which the answer is another. `None` where no rule that somebody writes changes it: a built-in rule, the workflow or a program decides. */
  other_rules: RuleChange | null
  /** Digest of the policy that decided. */
  policy_version: Digest
  /** Every reason, in the order of `rules`. */
  reasons: Array<string>
  /** Every rule that contributed, in layer order then by name; independent of file order. */
  rules: Array<RuleTrace>
  /** Whether other calls were left out because the rules in TypeScript would have to be asked about them: they are not asked about what was recorded, not for long, and not after a fault. */
  untried?: boolean
}

/** Where words were found. */
export type Find = {
  /** Branch. */
  branch: BranchId
  /** What the event is. */
  kind: Kind
  /** Sequence of the event. */
  seq: number
  /** Session. */
  session: SessionId
  /** The text around the first word. */
  text: string
  /** When, microseconds since 1970. */
  time_us: number
}

/** What a search came to. */
export type Finds = {
  /** Events that were read. */
  events: number
  /** Finds, newest session first, each session's in order. */
  finds: Array<Find>
  /** Whether everything was looked at. */
  is_whole: boolean
  /** Where another search goes on; `null` where everything was looked at. */
  next: string | null
  /** What was looked for. */
  q: string
}

/** One grant, for lists. */
export type Grant = {
  /** Who gave it. */
  approver: Actor
  /** Branch in which it was given. */
  branch: BranchId
  /** First moment at which it is void, microseconds since 1970. */
  expires_us: number
  /** Its name. */
  grant: GrantId
  /** When it was given, microseconds since 1970; 0 where only the event knows. */
  issued_us: number
  /** Most uses. */
  max_uses: number | null
  /** Which calls it is for, with examples; of an approval, what was approved. */
  rule: GrantRule
  /** How far it reaches. */
  scope: GrantScope
  /** Session in which it was given. */
  session: SessionId
  /** How it stands. */
  state: GrantState
  /** Uses so far. */
  uses: number
  /** Directory of the project, for the scope `workspace`. */
  workspace: string | null
}

export type GrantId = string

export type GrantRevoked = {
  /** Whether it could be used until now. */
  changed: boolean
  grant: GrantId
}

/** Which calls a grant is for, as a person is shown it. */
export type GrantRule = {
  /** Calls that it matches. */
  matches: Array<string>
  /** The `match` of a rule. */
  matching: unknown
  /** Calls near to them that it does not match. */
  not_matches: Array<string>
}

/** How far a person's yes reaches. */
export type GrantScope = 'call' | 'turn' | 'session' | 'workspace'

/** How a grant stands. */
export type GrantState = 'live' | 'expired' | 'turn_over' | 'used_up' | 'revoked' | 'policy_changed' | 'repository_changed'

export type Grants = {
  grants: Array<Grant>
  /** Cursor of the next page; `null` on the last one. */
  next: string | null
}

export type GrantsQuery = {
  /** Whether those that can be used no more are told, too. */
  all?: boolean
  /** Where to go on: `next` of the page before. */
  cursor?: string | null
  /** Most items of the page. */
  limit?: number | null
}

export type Health = {
  service: string
  /** `ok`. */
  status: string
}

/** A key as it is shown: all but what it is compared with. */
export type Key = {
  created_us: number
  expires_us: number | null
  is_agent: boolean
  is_live: boolean
  key: string
  name: string | null
  replaces: string | null
  revoked_us: number | null
  roles: Array<string>
  /** Only in the answer that made it. */
  text?: string | null
}

export type KeyRevoked = {
  /** Whether it could be used until now. */
  changed: boolean
  key: string
}

export type KeyRotation = {
  /** How long the old one may still be used; without it not at all. */
  grace_s?: number
  /** How long the new one is good for; without it as long as the old one was when it was made. */
  lifetime_s?: number | null
}

export type Keys = {
  keys: Array<Key>
  /** Cursor of the next page; `null` on the last one. */
  next: string | null
}

/** What happened: dotted words. */
export type Kind = string

/** Which layer a rule comes from. */
export type Layer = 'built_in' | 'grant' | 'file' | 'extension' | 'default'

/** A merge of branches that waits for a person. It is made between just these events of both. */
export type MergeAsked = {
  /** Who merges. */
  by: Principal
  /** Session of both branches. */
  session: SessionId
  /** The branch that ends. */
  source: BranchId
  /** Its newest event. */
  source_seq: number
  /** Whose version of paths that do not go together is taken; an empty path stands for all. */
  take?: Array<TakenPath>
  /** The branch that goes on. */
  target: BranchId
  /** Its newest event. */
  target_seq: number
}

/** One of the two branches of a merge. */
export type MergeSide = 'source' | 'target'

/** How a branch was merged. */
export type MergeStrategy = 'fast_forward' | 'three_way'

/** A merge that was made, or what one would do. */
export type Merging = {
  /** The question that a person answers before anything is merged; absent where none is asked. */
  approval?: ApprovalName | null
  /** Sequence of the last event that both share. */
  base: number
  /** What changes in the target's files. */
  changed: Array<ChangedPath>
  /** Paths that do not go together; none in a merge that was made. */
  conflicts: Array<Conflict>
  /** The target's newest event after it; absent while nothing was merged. */
  head?: number | null
  /** Keys of the state that do not go together; none in a merge that was made. */
  keys: Array<string>
  /** The branch that ends. */
  source: BranchId
  /** How. */
  strategy: MergeStrategy
  /** Paths of which one version was taken. */
  taken: Array<TakenPath>
  /** The branch that goes on. */
  target: BranchId
}

/** How strictly a session works. */
export type Mode = 'strict' | 'explore' | 'debug'

/** A rule that one condition kept silent. */
export type NearRule = {
  /** What it would have contributed. */
  action: Effect
  /** The key that does not hold: of `match`, or `except` when an item of that lifts the rule. */
  key: string
  /** Line in it, from 1. */
  line: number
  /** Rule. */
  rule: string
  /** Policy file it is in. */
  source: string
}

export type NewFork = {
  /** Last event that both share; the newest unless it is given. */
  at?: number | null
  /** Branch to leave; the main one unless it is given. */
  from?: string | null
  name?: string | null
  reason?: string | null
}

export type NewKey = {
  /** Whether an agent uses it, who never answers a question. */
  is_agent?: boolean
  /** How long it is good for; without it until it is revoked. */
  lifetime_s?: number | null
  /** What it is for. */
  name?: string | null
  /** `viewer`, `operator`, `approver`, `auditor`, `admin`. */
  roles: Array<string>
}

export type NewMerge = {
  /** Only tell what would be done. */
  dry_run?: boolean
  /** Branch that goes on; the main one unless it is given. */
  into?: string | null
  /** Whose version of a path is taken where two do not go together; an empty path stands for all. */
  take?: Record<string, MergeSide>
}

export type NewPlan = {
  /** Whether what was entered into the version shown before goes over. */
  keep_input?: boolean
  /** The plan's text. */
  plan: string
  profile?: string | null
  project?: string | null
}

export type NewSession = {
  base_url?: string | null
  mode?: Mode | null
  model?: string | null
  project: string
  provider?: string | null
  /** Scenario of the scripted provider. */
  scenario?: string | null
}

export type NewTenant = {
  /** Rules that are in force in all its projects, beside theirs: the text of a policy file. */
  policy?: string | null
  /** The least careful profile under which its plans are shown. */
  profile?: string | null
  /** Limits by the names of the quotas. */
  quotas?: Record<string, number>
  /** Directories below which its projects lie; absolute paths. */
  roots?: Array<string>
  /** Its name: lower-case letters, digits, `-` and `_`. */
  tenant: TenantId
}

export type NewTurn = {
  /** Id or name; the main branch unless it is given. */
  branch?: string | null
  /** What a person says; without it the last turn is carried on. */
  message?: string | null
}

/** The newest event that a head covers. */
export type NewestEvent = {
  branch: BranchId
  hash: Digest
  seq: number
}

/** The event that brought a label. */
export type Origin = {
  /** Branch of the event. */
  branch: BranchId
  /** Its kind. */
  kind: string
  /** Label. */
  label: string
  /** Its sequence. */
  seq: number
  /** What it was, for people. */
  subject: string
}

/** The query of a list of which nothing else is chosen. */
export type PageQuery = {
  /** Where to go on: `next` of the page before. */
  cursor?: string | null
  /** Most items of the page. */
  limit?: number | null
}

/** A question that waits for an answer. */
export type PendingApproval = {
  /** Whether it was answered, and the owner has not taken the answer yet. */
  answered: boolean
  /** Its name. */
  approval: ApprovalName
  /** Digest of the arguments (or of the patch) that the approval is bound to. */
  args_digest: Digest
  /** When it asked, microseconds since 1970. */
  asked_us: number
  /** Digest of the frozen base. */
  base: Digest
  /** The call. */
  call?: CallId | null
  /** The merge of branches that an answer makes, where it is asked for in a session of its own. */
  merge?: MergeAsked | null
  /** The rule that the approval would be extended by, for a wider scope than the call. */
  offer?: GrantRule | null
  /** The unified diff, for a merge. */
  patch?: string | null
  /** Policy that asked. */
  policy_version: Digest
  /** Why it needs a person. */
  reasons: Array<string>
  /** Whether a process runs that session now; else it goes on when it is resumed. */
  running: boolean
  /** Session that asks. */
  session: SessionId
  /** What the person is shown. */
  shown: string
  /** Call or merge. */
  subject: ApprovalSubject
  /** Tool name, or `merge`. */
  tool: string
}

/** What was done to a plan's state. */
export type PlanAction = {
  path: string
  type: 'set'
  value: unknown
} | {
  path: string
  type: 'push'
  value: unknown
} | {
  by: unknown
  path: string
  type: 'increment'
} | {
  path: string
  type: 'toggle'
}

/** Value of an attribute: a text, `true` for a name alone, `null` for none. */
export type PlanAttributeValue = string | boolean | null

/** An event of a plan. */
export type PlanBoundEvent = {
  input?: Record<string, unknown> | null
  payload?: Record<string, unknown> | null
  type: string
}

/** How code of a plan ran: what it takes to run it again, where it ran, and what ended it. */
export type PlanCode = {
  /** What compiled it. */
  compiler: string
  /** What came of the modules that its imports and component nodes name. */
  components?: PlanComponents | null
  /** Processor time, in microseconds. */
  cpu_us: number
  /** How long it ran, in microseconds. */
  duration_us: number
  /** The lane that ran it. */
  effective: string
  /** What ran it. */
  engine: string
  /** Why it made nothing; the plan's own root was shown then. */
  error?: unknown
  /** Whether the default was run, because the export that was asked for is not there. */
  export_missing?: boolean
  /** How isolated it really was. */
  isolation: string
  /** Why its process was killed, when it did not end by itself. */
  killed?: string | null
  /** The limit that it reached. */
  limit?: string | null
  /** Digest of the compiled module. */
  module: string
  /** The time that it saw, in milliseconds since 1970. */
  now_ms: number
  /** The lane that the plan asked for. */
  requested: string
  /** Where chance began. */
  seed: number
  /** Whether it used storage, which was in memory and ended with the run. */
  storage_in_memory?: boolean
}

/** Why nothing came of a module or of a component. */
export type PlanComponentFault = {
  /** The error's code. */
  code: string
  /** The export that was called. */
  export?: string | null
  /** The module as the plan names it; empty when it is about all. */
  module: string
  /** Its words. */
  why: string
}

/** Component nodes and imports of a plan, as they were run. */
export type PlanComponents = {
  /** Components that were called. */
  called: number
  /** How many there were, also those that are not listed. */
  fault_count: number
  /** Modules and components of which nothing came; such a component's children are shown. */
  faults?: Array<PlanComponentFault>
  /** Digest of what called them. */
  module: string
}

/** One module that a plan names. */
export type PlanDependency = {
  /** Why not. */
  message?: string | null
  /** Whether it is supported and has a place. */
  ok: boolean
  /** Where it would come from. */
  resolved?: string | null
  specifier: string
  /** How far it is supported: `a`, `b` or `c`. */
  tier: string
  usage: PlanModuleUsage
}

export type PlanEvent = {
  event: string
  expect_revision?: number | null
  expect_version?: number | null
  input?: Record<string, unknown> | null
  payload?: Record<string, unknown> | null
  profile?: string | null
  project?: string | null
}

/** What an attribute of the markup stands for. */
export type PlanEventBinding = {
  /** The browser's event, such as `click`. */
  dom_event: string
  /** The plan's event. */
  event: PlanBoundEvent
  /** Value of the attribute. */
  id: string
}

/** One plan. */
export type PlanHistory = {
  /** The version that is shown. */
  current: number
  /** How many older ones are left out. */
  older_versions: number
  /** Its id. */
  plan: string
  /** Its versions in order. */
  versions: Array<PlanVersion>
}

/** Something that is wrong with a plan, or that is not shown. */
export type PlanIssue = {
  code: string
  fix: string
  message: string
  /** JSON Pointer of the place in the plan. */
  pointer: string
}

/** A module that code of a plan would run with. */
export type PlanModule = {
  /** Its address. */
  address: string
  /** From the plan to it. */
  chain: Array<string>
  /** What it is. */
  kind: string
}

/** Where a plan names a module. */
export type PlanModuleUsage = 'import' | 'component' | 'source'

/** What a node is. */
export type PlanNode = {
  tag: string
} | {
  text: string
}

/** One change of a view. */
export type PlanPatch = {
  before?: number | null
  id: number
  node: PlanNode
  op: 'ins'
  parent?: number | null
} | {
  id: number
  op: 'del'
} | {
  before?: number | null
  id: number
  op: 'mov'
} | {
  append: boolean
  id: number
  op: 'text'
  value: string
} | {
  id: number
  name: string
  op: 'attr'
  slot: number
  value: PlanAttributeValue
} | {
  dom_event: string
  event: PlanBoundEvent | null
  id: number
  op: 'prop'
  slot: number
} | {
  id: number
  op: 'ready'
}

export type PlanProbe = {
  /** The plan's text. */
  plan: string
  profile?: string | null
}

/** What a probe of a plan found. */
export type PlanProbed = {
  /** The modules that it names. */
  dependencies: Array<PlanDependency>
  /** How many reasons there are. */
  issue_count: number
  /** The first reasons why not. */
  issues: Array<PlanIssue>
  /** The modules that its code would run with, where it has code. */
  modules?: Array<PlanModule> | null
  /** Parts that are harmless and will not be shown. */
  notes?: Array<PlanIssue>
  /** Whether it would be shown and every module can be had. */
  ok: boolean
  /** The plan, where the text is one. */
  plan_id?: string | null
  /** Whether the profile accepts it. */
  safe: boolean
}

export type PlanPrompt = {
  base_url?: string | null
  model?: string | null
  profile?: string | null
  project?: string | null
  /** What the interface is for. */
  prompt: string
  provider?: string | null
  /** Scenario of the scripted provider. */
  scenario?: string | null
}

/** What a replay found. */
export type PlanReplay = {
  /** What differs: `status`, `code`, `version`, `text`, `state`, `markup`, `profile`. */
  differences: Array<string>
  /** Whether everything is as it was. */
  equal: boolean
  /** The run that was made again. */
  of: number
  /** Whether the renderer is another version than the one of the run. */
  renderer_changed: boolean
  /** The run of the replay itself. */
  run: number
}

export type PlanRollback = {
  profile?: string | null
  project?: string | null
  version: number
}

/** A run as data. */
export type PlanRun = {
  /** What was done to the state. */
  actions: Array<PlanAction>
  /** Those that have no place in it. */
  dropped: Array<string>
  /** The bindings that the markup names, in order. */
  events: Array<PlanEventBinding>
  /** Whether the plan has a transition for the event. */
  handled: boolean
  /** Origins of the images in the markup. */
  image_origins: Array<string>
  /** Values that were entered and came over from another version; JSON Pointers. */
  kept: Array<string>
  /** The markup. */
  markup: string
  /** Parts that were left out, and what the check remarks. */
  notes: Array<PlanIssue>
  /** What an event changes in a view that showed the state before. */
  patches: Array<PlanPatch>
  plan: string
  /** What to tell a person of it besides what it made. */
  remarks?: Array<string>
  revision: number
  /** Its name. */
  run: number
  /** How the plan's code ran: asked-for and effective lane, isolation, limit, why it was killed, its error. */
  script?: PlanCode | null
  version: number
}

/** One run. */
export type PlanRunRecord = {
  /** Error code. */
  code: string | null
  /** How long it took, in microseconds. */
  duration_us: number
  /** When it ended, microseconds since 1970. */
  ended_us: number
  /** Name of the event. */
  event: string | null
  /** What made it begin. */
  mode: RunMode
  /** The run that it made again. */
  of: number | null
  /** Plan id. */
  plan: string | null
  /** Its name. */
  run: number
  /** How it ended. */
  status: RunStatus
  /** Version. */
  version: number | null
}

export type PlanState = {
  plan: string
  /** Steps so far. */
  revision: number
  state: Record<string, unknown>
  version: number
}

/** The schema of [`Usage`], whose crate knows of none. */
export type PlanUsage = {
  /** Runs under way, with the time at which each gives its place back by itself. */
  running: Record<string, number>
  /** Runs that began in it. */
  runs_in_window: number
  /** When the window began, in microseconds. */
  window_started_us: number
}

/** One version of a plan. */
export type PlanVersion = {
  /** Digest of the plan without its version. */
  content: Digest
  /** When it was registered, microseconds since 1970. */
  registered_us: number
  /** Steps of its state so far. */
  revision: number
  /** Digest of its text. */
  text: Digest
  /** Its number. */
  version: number
}

/** Plans and the newest runs. */
export type Plans = {
  /** Cursor of the next page; `null` on the last one. */
  next: string | null
  /** Plans in order of their ids. */
  plans: Array<PlanHistory>
  /** The newest runs, the newest first. */
  runs: Array<PlanRunRecord>
  /** What the tenant has used of its quota. */
  usage: PlanUsage
}

export type PlansCleared = {
  /** True. */
  cleared: boolean
  /** How many plans there were. */
  plans: number
  /** How many runs. */
  runs: number
}

export type PlansQuery = {
  /** Where to go on: `next` of the page before. */
  cursor?: string | null
  /** Most items of the page. */
  limit?: number | null
  /** How many of the newest runs are told. */
  runs?: number | null
}

export type PolicyAccepted = {
  /** Digest of the text. */
  accepted: Digest
  /** Recorded decisions that were allowed and would be denied. */
  breaking: number
  /** Whether it was not accepted until now. */
  changed: boolean
}

export type PolicyApproval = {
  /** What the proposal asks for where a yes is not enough. */
  confirm?: string | null
  /** Digest of the text that was read. */
  digest: Digest
  /** The text of a policy file; without it the file that is there is meant. */
  policy?: string | null
  /** Directory of the project. */
  project: string
}

export type PolicyCall = {
  /** The call in short form, as in examples of rules: `syscall`, `path`, `argv`, `host`, … */
  call: Record<string, unknown>
  /** The text of a policy file, tried in the place of the project's. */
  policy?: string | null
  /** Directory of a project; the call is made there. */
  project: string
}

export type PolicyCandidate = {
  /** The last decisions of all sessions, where none is named. */
  last?: number | null
  /** The text of a policy file. */
  policy: string
  /** Only this session. */
  session?: SessionId | null
}

export type PolicyInForce = {
  policy_version: Digest
  /** The file that the project brings, if there is one. */
  project_policy: ProjectPolicy | null
  rules: Array<PolicyRule>
}

export type PolicyProposal = {
  /** The text of a policy file; without it the file that is there is meant. */
  policy?: string | null
  /** Directory of the project. */
  project: string
}

export type PolicyQuery = {
  /** Directory of a project. */
  project: string
}

export type PolicyReview = {
  /** Whether it is already. */
  accepted: boolean
  /** How many of those were allowed and would be denied. */
  breaking: number
  /** Those that come out differently. */
  changed: Array<ChangedDecision>
  /** What has to be sent as `confirm`, where a yes is not enough. */
  confirm: string | null
  /** Recorded decisions that were made again. */
  decisions: number
  /** Unified; empty when nothing differs. */
  diff: string
  /** What is accepted. */
  digest: Digest
  /** Directory of the project. */
  project: string
}

export type PolicyRule = {
  action: Effect
  layer: Layer
  line: number | null
  name: string
  reason: string | null
  source: string | null
}

/** Who asks for a syscall, always with a tenant. */
export type Principal = {
  /** Name within its kind, for example `user:ada` is kind user, id `ada`. */
  id: string
  /** Capability tags on the identity (`core_plugin`, `trusted_write`, `third_party`, ...). */
  tags?: Array<string>
  /** Tenant. */
  tenant: TenantId
  /** Kind. */
  type: PrincipalKind
}

/** What kind of principal asks. */
export type PrincipalKind = 'user' | 'agent' | 'plugin' | 'kernel'

/** The body of a problem. */
export type Problem = {
  code: string
  context: Record<string, unknown>
  detail: string
  fix: string
  retryable: boolean
  status: number
  title: string
  /** Names the code; it is not meant to be fetched. */
  type: string
  what: string
  why: string
}

/** The policy file of a project. */
export type ProjectPolicy = {
  /** Whether a person accepted this text for this directory. */
  accepted: boolean
  digest: Digest
}

/** The hashed parts of an event. */
export type ProvedEvent = {
  /** The body's bytes; `None` when it was erased. */
  body: string | null
  /** Its hash. */
  hash: Digest
  /** The header's bytes. */
  header: string
  /** Hash of the event before it. */
  prev: Digest
  /** The body's salt in hexadecimal; `None` when the body was erased. */
  salt: string | null
}

/** So many calls in so much time. */
export type Rate = {
  /** Most calls. */
  calls: number
  /** Within this time, in milliseconds. */
  within_ms: number
}

export type Ready = {
  running_turns: number
  /** `ready`. */
  status: string
}

/** A change of the rules. */
export type RuleChange = {
  /** The file that would have to be accepted, so that it decides alone where each of several has to allow now. */
  accepted?: string | null
  /** The answer then. */
  decision: Effect
  /** The narrowest rule that would have to be there. */
  with?: string | null
  /** Rules that would have to be silent: all of them. */
  without?: Array<string>
}

/** One rule's part in a decision. */
export type RuleTrace = {
  /** What the rule contributed. */
  action: Effect
  /** Layer. */
  layer: Layer
  /** Line in the policy file, from 1. */
  line?: number | null
  /** Rule name. */
  name: string
  /** The rule's own words. */
  reason?: string | null
  /** Policy file the rule is in; the workflow's generated rules have one of their own. */
  source?: string | null
}

/** What made a run of a plan begin. */
export type RunMode = 'prompt' | 'plan' | 'event' | 'rollback' | 'replay'

/** How a run of a plan ended. */
export type RunStatus = 'succeeded' | 'rejected' | 'throttled' | 'failed'

/** A sandbox that a branch made. */
export type Sandbox = {
  /** What was measured. */
  attestation?: unknown
  /** The branch. */
  branch: BranchId
  /** When it was made, microseconds since 1970. */
  created_us: number
  /** Isolation that was measured from inside. */
  isolation: string | null
  /** Its name. */
  sandbox: string
  /** Sequence of the event that tells of it. */
  seq: number
  /** The session that made it. */
  session: SessionId
  /** `live`; `failed`, when it could not be made; `destroyed`; `gone`, with the process that ran the branch. */
  state: string
  /** Template of limits. */
  template: string
}

export type SandboxQuery = {
  /** One of this session, an ended one too; without it one that runs now. */
  session?: SessionId | null
}

export type SandboxSweep = {
  /** Whether it is only told what would be removed. */
  dry_run?: boolean
}

export type Sandboxes = {
  /** Cursor of the next page; `null` on the last one. */
  next: string | null
  sandboxes: Array<Sandbox>
}

export type SandboxesQuery = {
  /** Where to go on: `next` of the page before. */
  cursor?: string | null
  /** Most items of the page. */
  limit?: number | null
  /** Those of this session, ended ones too; without it those that run now. */
  session?: SessionId | null
}

export type SandboxesSwept = {
  /** Whether it was only told. */
  dry_run: boolean
  /** Directories. */
  removed: Array<string>
}

export type SearchQuery = {
  /** Where to go on: `next` of the page before. */
  cursor?: string | null
  /** Most finds of the page. */
  limit?: number | null
  /** Words that stand in one text, in any order and case. */
  q: string
  /** Only in this session. */
  session?: SessionId | null
}

/** A session in a list. */
export type Session = {
  /** File with its events, once they are archived. */
  archive?: string | null
  /** Its first branch. */
  branch: BranchId
  /** When it was created, microseconds since 1970. */
  created_us: number
  /** Sequence of its newest event. */
  events: number
  /** Hash of that event. */
  head: Digest
  /** How strictly it works; like all that follows, of a session that can be read here. */
  mode: Mode | null
  /** Model name. */
  model: string | null
  /** Project directory. */
  project: string | null
  /** Provider name. */
  provider: string | null
  /** Session. */
  session: SessionId
  /** `running`, `interrupted`, `new`, how its last turn ended, `closed`, `archived`, `deleted`, or `damaged`. */
  state: string
  /** First line of the first message. */
  task: string
  /** Workflow state. */
  workflow: State | null
}

export type SessionClosed = {
  /** Whether it was open until now. */
  changed: boolean
  /** True. */
  closed: boolean
  session: SessionId
}

export type SessionCosts = {
  /** Oldest first. */
  branches: Array<BranchCosts>
  /** Cursor of the next page; `null` on the last one. */
  next: string | null
  session: SessionId
  /** Of all branches. */
  total: Total
}

export type SessionDeleted = {
  /** Blobs that were erased. */
  blobs: number
  /** True. */
  deleted: boolean
  /** Bodies that were erased. */
  events: number
  /** Events that stay whole, because they are what gave somebody a right, or say what was erased. */
  kept: number
  session: SessionId
}

/** In the form of a session id such as s_8f2k. */
export type SessionId = string

/** What a replay found. */
export type SessionReplay = {
  /** Digest of all that was made again: requests, events and the state at the end. Equal for every replay of the same events by the same code. */
  digest: Digest
  /** True. */
  equal: boolean
  /** Events replayed. */
  events: number
  /** Model requests that were made again and were equal. */
  model_requests: number
} | {
  /** False. */
  equal: boolean
  /** What the kernel makes of the events before. */
  expected: unknown
  /** What is recorded. */
  found: unknown
  /** Kind of the recorded event. */
  kind: string
  /** Sequence of the event. */
  seq: number
  /** What differs: `model_request`, `decision`, `merge`, `implied_event`, `unexplained_event`, `unreadable_event`. */
  what: string
}

export type Sessions = {
  /** Cursor of the next page; `null` on the last one. */
  next: string | null
  sessions: Array<Session>
}

export type SessionsQuery = {
  /** Whether also what people did outside agents' sessions is listed: answers, questions about merges, plans, policies. */
  all?: boolean
  /** Where to go on: `next` of the page before. */
  cursor?: string | null
  /** Most items of the page. */
  limit?: number | null
}

/** What a candidate would have changed. */
export type Simulation = {
  /** Those that come out differently, newest first. */
  changed: Array<ChangedDecision>
  /** Decisions made again. */
  decisions: number
  /** How many decisions were not made again, by the reason: the kernel's rule that denied them whatever a policy says (`workspace-boundary`, `exemption-scope`, `coverage-debt`), or `many-paths` where one event tells of many paths. */
  left_out: Record<string, number>
}

/** Where a session stands. */
export type State = 'idle' | 'planning' | 'test_writing' | 'code_writing' | 'validating' | 'reviewing' | 'committing' | 'exploring' | 'retroactive_testing'

export type SteerTurn = {
  branch?: string | null
  /** What a person says. */
  message: string
}

export type StreamQuery = {
  branch?: string | null
  /** First sequence; what `Last-Event-ID` says counts more. */
  from?: number | null
}

/** A path of which a person took one branch's version. */
export type TakenPath = {
  /** The path. */
  path: string
  /** Whose version. */
  side: MergeSide
}

/** A tenant. */
export type Tenant = {
  /** Sequence of the event that says so, in the session `s_access`; 0 while none does. */
  changed_seq: number
  /** When it was made, microseconds since 1970. */
  created_us: number
  /** Whether nobody may use it. */
  is_disabled: boolean
  /** Rules that are in force in all its projects, beside theirs: the text of a policy file. */
  policy: string | null
  /** The least careful profile under which its plans are shown. */
  profile: string | null
  /** Limits by the names of the quotas. */
  quotas: Record<string, number>
  /** Directories below which its projects lie. */
  roots: Array<string>
  /** Its name. */
  tenant: TenantId
}

/** In the form of a tenant name such as local. */
export type TenantId = string

export type TenantTerms = {
  /** Rules that are in force in all its projects, beside theirs: the text of a policy file. */
  policy?: string | null
  /** The least careful profile under which its plans are shown. */
  profile?: string | null
  /** Limits by the names of the quotas. */
  quotas?: Record<string, number>
  /** Directories below which its projects lie; absolute paths. */
  roots?: Array<string>
}

export type Tenants = {
  /** Cursor of the next page; `null` on the last one. */
  next: string | null
  tenants: Array<Tenant>
}

/** Sums of charges. */
export type Total = {
  /** Answers. */
  answers: number
  /** Cost in micro-units of the answers whose price was known. */
  cost_micros: number
  /** Tokens by kind. */
  tokens: Record<string, number>
  /** Answers without a known price; while there are any, the cost is a lower bound. */
  unpriced: number
}

/** What a client wants done. */
export type Trigger = 'submit-message' | 'regenerate-message'

/** Where a turn is. */
export type Turn = {
  branch: BranchId
  session: SessionId
  /** Sequence of its first event. */
  turn: number
}

export type TurnCosts = {
  total: Total
  /** Sequence of its first event; `null` for what was asked outside turns. */
  turn: number | null
}

export type Usage = {
  /** Oldest first. */
  days: Array<UsageOfDay>
  running_turns: number
  stored_bytes: number
  total: Total
}

/** What was used on one day, in UTC. */
export type UsageOfDay = {
  /** Days since 1970. */
  day: number
  /** The same by model. */
  models: Record<string, Total>
  /** Answers of models, their tokens and their cost. */
  total: Total
  /** Turns that began. */
  turns: number
}

export type UsageQuery = {
  /** How many days are told, today included. */
  days?: number | null
}

/** The schema of [`Verification`]. */
export type Verification = {
  /** Number of blobs that events name and that are there; each was read. */
  blobs: number
  /** Number of blobs that were erased, as an event says. */
  erased_blobs: number
  /** Number of events whose body was erased, as a later event says. */
  erased_events: number
  /** Number of events. */
  events: number
  /** Root of the tree over all of them. */
  head: string
  /** Archives that are not where the log put them, although it did not delete them. */
  missing_archives?: Array<string>
  /** Number of blobs that events of imported sessions name and that did not come with them. */
  missing_blobs?: number
  /** True. */
  ok: boolean
  /** Files with bytes that were set aside because they are no log. */
  quarantined?: Array<string>
  /** Number of events that it covers. */
  signed_events: number
  /** Root that the newest signed head vouches for. */
  signed_head: string
} | {
  /** Branch of the first bad event, when one event can be named. */
  branch: BranchId | null
  /** What should be there: a hash, a place, or the sequence of the head. */
  expected: unknown
  /** What is there. */
  found: unknown
  /** `hash_mismatch`, `truncated`, `reordered`, `missing_log` or `bad_signature`. */
  kind: string
  /** False. */
  ok: boolean
  /** Its sequence. */
  seq: number | null
}

export type Whoami = {
  id: string
  /** The least careful profile under which the tenant's plans are shown. */
  profile: string | null
  /** Limits by the names of the quotas. */
  quotas: Record<string, number>
  tenant: TenantId
  type: PrincipalKind
}

/** Every route of a server. */
export class Glasshouse {
  readonly #transport: Transport

  constructor(server: Server) {
    this.#transport = new Transport(server)
  }

  /** The routes, a page that is made of the description. `GET /docs` */
  getDocs(more: More = {}): Promise<string> {
    return this.#transport.text('GET', `/docs`, { more })
  }

  /** Its script. `GET /docs.js` */
  getDocsJs(more: More = {}): Promise<string> {
    return this.#transport.text('GET', `/docs.js`, { more })
  }

  /** The lane sandbox-iframe, with its headers. `GET /lanes/frame.html` */
  getLanesFrameHtml(more: More = {}): Promise<string> {
    return this.#transport.text('GET', `/lanes/frame.html`, { more })
  }

  /** What a page runs code of plans with. `GET /lanes/host.js` */
  getLanesHostJs(more: More = {}): Promise<string> {
    return this.#transport.text('GET', `/lanes/host.js`, { more })
  }

  /** The lane sandbox-worker, with its headers. `GET /lanes/worker.html` */
  getLanesWorkerHtml(more: More = {}): Promise<string> {
    return this.#transport.text('GET', `/lanes/worker.html`, { more })
  }

  /** This description of the API. `GET /openapi.json` */
  getOpenapiJson(more: More = {}): Promise<Record<string, unknown>> {
    return this.#transport.json('GET', `/openapi.json`, { more })
  }

  /** The playground of plans, a page. `GET /playground` */
  getPlayground(more: More = {}): Promise<string> {
    return this.#transport.text('GET', `/playground`, { more })
  }

  /** Its style. `GET /playground.css` */
  getPlaygroundCss(more: More = {}): Promise<string> {
    return this.#transport.text('GET', `/playground.css`, { more })
  }

  /** Its script. `GET /playground.js` */
  getPlaygroundJs(more: More = {}): Promise<string> {
    return this.#transport.text('GET', `/playground.js`, { more })
  }

  /** Questions that wait for a person. `GET /v1/approvals` */
  getApprovals(query: { cursor?: string; limit?: number } = {}, more: More = {}): Promise<Approvals> {
    return this.#transport.json('GET', `/v1/approvals`, { query, more })
  }

  /** One question, with what is asked for. `GET /v1/approvals/{approval}` */
  getApprovalsByApproval(approval: string | number, more: More = {}): Promise<PendingApproval> {
    return this.#transport.json('GET', `/v1/approvals/${encodeURIComponent(approval)}`, { more })
  }

  /** Answer a question. `POST /v1/approvals/{approval}` */
  postApprovalsByApproval(approval: string | number, body: ApprovalAnswer, more: More = {}): Promise<ApprovalAnswered> {
    return this.#transport.json('POST', `/v1/approvals/${encodeURIComponent(approval)}`, { body, more })
  }

  /** The newest signed head. `GET /v1/audit/checkpoint` */
  getAuditCheckpoint(more: More = {}): Promise<Checkpoint> {
    return this.#transport.json('GET', `/v1/audit/checkpoint`, { more })
  }

  /** Prove that an event is in the log. `GET /v1/audit/proofs/{branch}/{seq}` */
  getAuditProofsByBranchBySeq(branch: string | number, seq: string | number, more: More = {}): Promise<EventProof> {
    return this.#transport.json('GET', `/v1/audit/proofs/${encodeURIComponent(branch)}/${encodeURIComponent(seq)}`, { more })
  }

  /** Verify the whole log. `POST /v1/audit/verify` */
  postAuditVerify(more: More = {}): Promise<Verification> {
    return this.#transport.json('POST', `/v1/audit/verify`, { more })
  }

  /** Stored bytes by their digest. `GET /v1/blobs/{digest}` */
  getBlobsByDigest(digest: string | number, more: More = {}): Promise<Uint8Array> {
    return this.#transport.bytes('GET', `/v1/blobs/${encodeURIComponent(digest)}`, { more })
  }

  /** Say something in a chat of the AI SDK, or answer what it asked, and follow the answer. `POST /v1/chat` */
  postChat(body: ChatRequest, more: More = {}): Promise<Connection> {
    return this.#transport.stream('POST', `/v1/chat`, { body, more })
  }

  /** Messages of a chat without the one that is being made. `GET /v1/chat/{session}/messages` */
  getChatBySessionMessages(session: string | number, query: { branch?: string; cursor?: string; limit?: number } = {}, more: More = {}): Promise<ChatMessages> {
    return this.#transport.json('GET', `/v1/chat/${encodeURIComponent(session)}/messages`, { query, more })
  }

  /** Stop the turn that a chat is at; 204 where none runs. `POST /v1/chat/{session}/stop` */
  postChatBySessionStop(session: string | number, body: ChatStop = {}, more: More = {}): Promise<Turn | undefined> {
    return this.#transport.json('POST', `/v1/chat/${encodeURIComponent(session)}/stop`, { body, more })
  }

  /** Follow the message that a chat is at; 204 where none is being made. `GET /v1/chat/{session}/stream` */
  getChatBySessionStream(session: string | number, query: { branch?: string } = {}, more: More = {}): Promise<Connection> {
    return this.#transport.stream('GET', `/v1/chat/${encodeURIComponent(session)}/stream`, { query, more })
  }

  /** Rights that people gave. `GET /v1/grants` */
  getGrants(query: { all?: boolean; cursor?: string; limit?: number } = {}, more: More = {}): Promise<Grants> {
    return this.#transport.json('GET', `/v1/grants`, { query, more })
  }

  /** Take a right back. `DELETE /v1/grants/{grant}` */
  deleteGrantsByGrant(grant: string | number, more: More = {}): Promise<GrantRevoked> {
    return this.#transport.json('DELETE', `/v1/grants/${encodeURIComponent(grant)}`, { more })
  }

  /** Whether the process answers. `GET /v1/health` */
  getHealth(more: More = {}): Promise<Health> {
    return this.#transport.json('GET', `/v1/health`, { more })
  }

  /** Keys of the tenant. `GET /v1/keys` */
  getKeys(query: { cursor?: string; limit?: number } = {}, more: More = {}): Promise<Keys> {
    return this.#transport.json('GET', `/v1/keys`, { query, more })
  }

  /** Make a key; the answer alone has its text. `POST /v1/keys` */
  postKeys(body: NewKey, more: More = {}): Promise<Key> {
    return this.#transport.json('POST', `/v1/keys`, { body, more })
  }

  /** Take a key back. `DELETE /v1/keys/{key}` */
  deleteKeysByKey(key: string | number, more: More = {}): Promise<KeyRevoked> {
    return this.#transport.json('DELETE', `/v1/keys/${encodeURIComponent(key)}`, { more })
  }

  /** Make a key in the place of another one. `POST /v1/keys/{key}/rotate` */
  postKeysByKeyRotate(key: string | number, body: KeyRotation = {}, more: More = {}): Promise<Key> {
    return this.#transport.json('POST', `/v1/keys/${encodeURIComponent(key)}/rotate`, { body, more })
  }

  /** What the server counts, for Prometheus. `GET /v1/metrics` */
  getMetrics(more: More = {}): Promise<string> {
    return this.#transport.text('GET', `/v1/metrics`, { more })
  }

  /** Plans with their versions, and the newest runs. `GET /v1/plans` */
  getPlans(query: { cursor?: string; limit?: number; runs?: number } = {}, more: More = {}): Promise<Plans> {
    return this.#transport.json('GET', `/v1/plans`, { query, more })
  }

  /** Show a plan and register it. `POST /v1/plans` */
  postPlans(body: NewPlan, more: More = {}): Promise<PlanRun> {
    return this.#transport.json('POST', `/v1/plans`, { body, more })
  }

  /** List plans and runs no more; the log keeps their events. `POST /v1/plans/clear` */
  postPlansClear(more: More = {}): Promise<PlansCleared> {
    return this.#transport.json('POST', `/v1/plans/clear`, { more })
  }

  /** What a plan needs, and whether a profile accepts it. `POST /v1/plans/probe` */
  postPlansProbe(body: PlanProbe, more: More = {}): Promise<PlanProbed> {
    return this.#transport.json('POST', `/v1/plans/probe`, { body, more })
  }

  /** Let a model make a plan, show it and register it. `POST /v1/plans/prompt` */
  postPlansPrompt(body: PlanPrompt, more: More = {}): Promise<PlanRun> {
    return this.#transport.json('POST', `/v1/plans/prompt`, { body, more })
  }

  /** The same, with previews while the plan comes, a JSON object a line. `POST /v1/plans/prompt/stream` */
  postPlansPromptStream(body: PlanPrompt, more: More = {}): Promise<Lines> {
    return this.#transport.lines('POST', `/v1/plans/prompt/stream`, { body, more })
  }

  /** Make a run again and compare. `POST /v1/plans/runs/{run}/replay` */
  postPlansRunsByRunReplay(run: string | number, more: More = {}): Promise<PlanReplay> {
    return this.#transport.json('POST', `/v1/plans/runs/${encodeURIComponent(run)}/replay`, { more })
  }

  /** Handle an event on a plan. `POST /v1/plans/{plan}/events` */
  postPlansByPlanEvents(plan: string | number, body: PlanEvent, more: More = {}): Promise<PlanRun> {
    return this.#transport.json('POST', `/v1/plans/${encodeURIComponent(plan)}/events`, { body, more })
  }

  /** Show an earlier version again. `POST /v1/plans/{plan}/rollback` */
  postPlansByPlanRollback(plan: string | number, body: PlanRollback, more: More = {}): Promise<PlanRun> {
    return this.#transport.json('POST', `/v1/plans/${encodeURIComponent(plan)}/rollback`, { body, more })
  }

  /** The state that is shown. `GET /v1/plans/{plan}/state` */
  getPlansByPlanState(plan: string | number, more: More = {}): Promise<PlanState> {
    return this.#transport.json('GET', `/v1/plans/${encodeURIComponent(plan)}/state`, { more })
  }

  /** The rules that would decide in a project. `GET /v1/policy` */
  getPolicy(query: { project: string }, more: More = {}): Promise<PolicyInForce> {
    return this.#transport.json('GET', `/v1/policy`, { query, more })
  }

  /** Accept a policy for a project. `POST /v1/policy/approve` */
  postPolicyApprove(body: PolicyApproval, more: More = {}): Promise<PolicyAccepted> {
    return this.#transport.json('POST', `/v1/policy/approve`, { body, more })
  }

  /** What would decide a call. `POST /v1/policy/check` */
  postPolicyCheck(body: PolicyCall, more: More = {}): Promise<Decision> {
    return this.#transport.json('POST', `/v1/policy/check`, { body, more })
  }

  /** What would decide a call, and what would make it another decision. `POST /v1/policy/explain` */
  postPolicyExplain(body: PolicyCall, more: More = {}): Promise<Explanation> {
    return this.#transport.json('POST', `/v1/policy/explain`, { body, more })
  }

  /** What accepting a policy would change. `POST /v1/policy/propose` */
  postPolicyPropose(body: PolicyProposal, more: More = {}): Promise<PolicyReview> {
    return this.#transport.json('POST', `/v1/policy/propose`, { body, more })
  }

  /** Try another policy on past decisions. `POST /v1/policy/simulate` */
  postPolicySimulate(body: PolicyCandidate, more: More = {}): Promise<Simulation> {
    return this.#transport.json('POST', `/v1/policy/simulate`, { body, more })
  }

  /** Whether work can be taken. `GET /v1/ready` */
  getReady(more: More = {}): Promise<Ready> {
    return this.#transport.json('GET', `/v1/ready`, { more })
  }

  /** Sandboxes that run, or those of a session. `GET /v1/sandboxes` */
  getSandboxes(query: { cursor?: string; limit?: number; session?: SessionId | null } = {}, more: More = {}): Promise<Sandboxes> {
    return this.#transport.json('GET', `/v1/sandboxes`, { query, more })
  }

  /** Remove what ended sandboxes left, or tell what that would be. `POST /v1/sandboxes/sweep` */
  postSandboxesSweep(body: SandboxSweep = {}, more: More = {}): Promise<SandboxesSwept> {
    return this.#transport.json('POST', `/v1/sandboxes/sweep`, { body, more })
  }

  /** One sandbox. `GET /v1/sandboxes/{sandbox}` */
  getSandboxesBySandbox(sandbox: string | number, query: { session?: SessionId | null } = {}, more: More = {}): Promise<Sandbox> {
    return this.#transport.json('GET', `/v1/sandboxes/${encodeURIComponent(sandbox)}`, { query, more })
  }

  /** Words in messages, answers, calls, outputs and commits. `GET /v1/search` */
  getSearch(query: { cursor?: string; limit?: number; q: string; session?: SessionId | null }, more: More = {}): Promise<Finds> {
    return this.#transport.json('GET', `/v1/search`, { query, more })
  }

  /** Sessions of agents, newest first. `GET /v1/sessions` */
  getSessions(query: { all?: boolean; cursor?: string; limit?: number } = {}, more: More = {}): Promise<Sessions> {
    return this.#transport.json('GET', `/v1/sessions`, { query, more })
  }

  /** Start a session on a project. `POST /v1/sessions` */
  postSessions(body: NewSession, more: More = {}): Promise<Session> {
    return this.#transport.json('POST', `/v1/sessions`, { body, more })
  }

  /** Erase what a session said; every proof stays. `DELETE /v1/sessions/{session}` */
  deleteSessionsBySession(session: string | number, query: { keep_blobs?: boolean } = {}, more: More = {}): Promise<SessionDeleted> {
    return this.#transport.json('DELETE', `/v1/sessions/${encodeURIComponent(session)}`, { query, more })
  }

  /** One session. `GET /v1/sessions/{session}` */
  getSessionsBySession(session: string | number, more: More = {}): Promise<Session> {
    return this.#transport.json('GET', `/v1/sessions/${encodeURIComponent(session)}`, { more })
  }

  /** Branches of a session. `GET /v1/sessions/{session}/branches` */
  getSessionsBySessionBranches(session: string | number, query: { cursor?: string; limit?: number } = {}, more: More = {}): Promise<Branches> {
    return this.#transport.json('GET', `/v1/sessions/${encodeURIComponent(session)}/branches`, { query, more })
  }

  /** Fork a branch at an event. `POST /v1/sessions/{session}/branches` */
  postSessionsBySessionBranches(session: string | number, body: NewFork = {}, more: More = {}): Promise<Branch> {
    return this.#transport.json('POST', `/v1/sessions/${encodeURIComponent(session)}/branches`, { body, more })
  }

  /** Merge a branch into another, or tell what that would do. `POST /v1/sessions/{session}/branches/{branch}/merge` */
  postSessionsBySessionBranchesByBranchMerge(session: string | number, branch: string | number, body: NewMerge = {}, more: More = {}): Promise<Merging> {
    return this.#transport.json('POST', `/v1/sessions/${encodeURIComponent(session)}/branches/${encodeURIComponent(branch)}/merge`, { body, more })
  }

  /** End a session for good. `POST /v1/sessions/{session}/close` */
  postSessionsBySessionClose(session: string | number, more: More = {}): Promise<SessionClosed> {
    return this.#transport.json('POST', `/v1/sessions/${encodeURIComponent(session)}/close`, { more })
  }

  /** What a session's models cost. `GET /v1/sessions/{session}/costs` */
  getSessionsBySessionCosts(session: string | number, query: { cursor?: string; limit?: number } = {}, more: More = {}): Promise<SessionCosts> {
    return this.#transport.json('GET', `/v1/sessions/${encodeURIComponent(session)}/costs`, { query, more })
  }

  /** Files that differ between two branches, or two events. `GET /v1/sessions/{session}/diff` */
  getSessionsBySessionDiff(session: string | number, query: { branch?: string; cursor?: string; from?: number; limit?: number; names?: boolean; to?: number; with?: string } = {}, more: More = {}): Promise<Diff> {
    return this.#transport.json('GET', `/v1/sessions/${encodeURIComponent(session)}/diff`, { query, more })
  }

  /** Events of a branch. `GET /v1/sessions/{session}/events` */
  getSessionsBySessionEvents(session: string | number, query: { branch?: string; from?: number; limit?: number } = {}, more: More = {}): Promise<Events> {
    return this.#transport.json('GET', `/v1/sessions/${encodeURIComponent(session)}/events`, { query, more })
  }

  /** Follow a branch: what is stored, then what comes. `GET /v1/sessions/{session}/events/stream` */
  getSessionsBySessionEventsStream(session: string | number, query: { branch?: string; from?: number } = {}, more: More = {}): Promise<Connection> {
    return this.#transport.stream('GET', `/v1/sessions/${encodeURIComponent(session)}/events/stream`, { query, more })
  }

  /** Why something was decided. `GET /v1/sessions/{session}/events/{seq}/explanation` */
  getSessionsBySessionEventsBySeqExplanation(session: string | number, seq: string | number, query: { branch?: string } = {}, more: More = {}): Promise<ExplainedDecision> {
    return this.#transport.json('GET', `/v1/sessions/${encodeURIComponent(session)}/events/${encodeURIComponent(seq)}/explanation`, { query, more })
  }

  /** Make a branch again from its inputs and compare. `POST /v1/sessions/{session}/replay` */
  postSessionsBySessionReplay(session: string | number, body: BranchChoice = {}, more: More = {}): Promise<SessionReplay> {
    return this.#transport.json('POST', `/v1/sessions/${encodeURIComponent(session)}/replay`, { body, more })
  }

  /** Start a turn, or carry on the last one. `POST /v1/sessions/{session}/turns` */
  postSessionsBySessionTurns(session: string | number, body: NewTurn = {}, more: More = {}): Promise<Turn> {
    return this.#transport.json('POST', `/v1/sessions/${encodeURIComponent(session)}/turns`, { body, more })
  }

  /** Stop a turn. `POST /v1/sessions/{session}/turns/{turn}/cancel` */
  postSessionsBySessionTurnsByTurnCancel(session: string | number, turn: string | number, body: CancelTurn = {}, more: More = {}): Promise<Turn> {
    return this.#transport.json('POST', `/v1/sessions/${encodeURIComponent(session)}/turns/${encodeURIComponent(turn)}/cancel`, { body, more })
  }

  /** Say something to a turn that runs. `POST /v1/sessions/{session}/turns/{turn}/steer` */
  postSessionsBySessionTurnsByTurnSteer(session: string | number, turn: string | number, body: SteerTurn, more: More = {}): Promise<Turn> {
    return this.#transport.json('POST', `/v1/sessions/${encodeURIComponent(session)}/turns/${encodeURIComponent(turn)}/steer`, { body, more })
  }

  /** A document of a branch: manifest, thread, plan, heartbeat, checkpoints, tools, observations, soul, inbox, outbox. `GET /v1/sessions/{session}/views/{view}` */
  getSessionsBySessionViewsByView(session: string | number, view: string | number, query: { branch?: string } = {}, more: More = {}): Promise<Record<string, unknown> | Array<unknown> | null | string> {
    return this.#transport.json('GET', `/v1/sessions/${encodeURIComponent(session)}/views/${encodeURIComponent(view)}`, { query, more })
  }

  /** Tenants of the server. `GET /v1/tenants` */
  getTenants(query: { cursor?: string; limit?: number } = {}, more: More = {}): Promise<Tenants> {
    return this.#transport.json('GET', `/v1/tenants`, { query, more })
  }

  /** Make a tenant. `POST /v1/tenants` */
  postTenants(body: NewTenant, more: More = {}): Promise<Tenant> {
    return this.#transport.json('POST', `/v1/tenants`, { body, more })
  }

  /** Let nobody use a tenant any more. `DELETE /v1/tenants/{tenant}` */
  deleteTenantsByTenant(tenant: string | number, more: More = {}): Promise<Tenant> {
    return this.#transport.json('DELETE', `/v1/tenants/${encodeURIComponent(tenant)}`, { more })
  }

  /** One tenant. `GET /v1/tenants/{tenant}` */
  getTenantsByTenant(tenant: string | number, more: More = {}): Promise<Tenant> {
    return this.#transport.json('GET', `/v1/tenants/${encodeURIComponent(tenant)}`, { more })
  }

  /** Change what a tenant may do; a disabled one is used again. `PUT /v1/tenants/{tenant}` */
  putTenantsByTenant(tenant: string | number, body: TenantTerms, more: More = {}): Promise<Tenant> {
    return this.#transport.json('PUT', `/v1/tenants/${encodeURIComponent(tenant)}`, { body, more })
  }

  /** Make a key of a tenant. `POST /v1/tenants/{tenant}/keys` */
  postTenantsByTenantKeys(tenant: string | number, body: NewKey, more: More = {}): Promise<Key> {
    return this.#transport.json('POST', `/v1/tenants/${encodeURIComponent(tenant)}/keys`, { body, more })
  }

  /** What all sessions used, by day and model. `GET /v1/usage` */
  getUsage(query: { days?: number } = {}, more: More = {}): Promise<Usage> {
    return this.#transport.json('GET', `/v1/usage`, { query, more })
  }

  /** Who asks, and what the tenant may use. `GET /v1/whoami` */
  getWhoami(more: More = {}): Promise<Whoami> {
    return this.#transport.json('GET', `/v1/whoami`, { more })
  }
}
