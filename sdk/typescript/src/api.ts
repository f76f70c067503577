// Written by `cargo xtask sdk` from docs/reference/openapi.json.
import { type Connection, type More, type Server, Transport } from './runtime.ts'

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

export type Branch = {
  branch: BranchId
  created_us: number
  /** The last event that it shares with its parent. */
  fork_seq?: number | null
  head: number
  head_hash: Digest
  is_imported: boolean
  last_us: number
  name: string
  parent?: BranchId | null
  /** `open`, `merged` or `closed`. */
  state: string
}

export type BranchChoice = {
  /** Id or name; the main branch unless it is given. */
  branch?: string | null
}

/** In the form of a branch id such as b_3k9q. */
export type BranchId = string

export type Branches = {
  branches: Array<Branch>
}

export type CancelTurn = {
  branch?: string | null
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

export type DeletionQuery = {
  /** Whether the blobs that only this session names stay. */
  keep_blobs?: boolean
}

export type DiffQuery = {
  /** Branch to compare, by id or name; the main one unless it is given. */
  branch?: string | null
  /** Event of it; the newest unless it is given. */
  from?: number | null
  /** Whether patches are left out. */
  names?: boolean
  /** Event of that; the newest unless it is given. */
  to?: number | null
  /** The other branch; the same unless it is given. */
  with?: string | null
}

/** A SHA-256 digest. */
export type Digest = string

export type EventsQuery = {
  /** Id or name; the main branch unless it is given. */
  branch?: string | null
  /** First sequence. */
  from?: number | null
  limit?: number | null
}

/** How far a person's yes reaches. */
export type GrantScope = 'call' | 'turn' | 'session' | 'workspace'

export type GrantsQuery = {
  all?: boolean
}

export type KeyRotation = {
  /** How long the old one may still be used; without it not at all. */
  grace_s?: number
  /** How long the new one is good for; without it until it is revoked. */
  lifetime_s?: number | null
}

/** One of the two branches of a merge. */
export type MergeSide = 'source' | 'target'

/** How strictly a session works. */
export type Mode = 'strict' | 'explore' | 'debug'

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

export type PlanEvent = {
  event: string
  expect_revision?: number | null
  expect_version?: number | null
  input?: Record<string, unknown> | null
  payload?: Record<string, unknown> | null
  profile?: string | null
  project?: string | null
}

export type PlanProbe = {
  /** The plan's text. */
  plan: string
  profile?: string | null
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

export type PlanRollback = {
  profile?: string | null
  project?: string | null
  version: number
}

export type PlansQuery = {
  runs?: number | null
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

export type SandboxSweep = {
  /** Whether it is only told what would be removed. */
  dry_run?: boolean
}

export type SandboxesQuery = {
  /** Those of this session, ended ones too; without it those that run now. */
  session?: SessionId | null
}

export type SearchQuery = {
  limit?: number | null
  /** Words that stand in one text, in any order and case. */
  q: string
  /** Only in this session. */
  session?: SessionId | null
}

/** In the form of a session id such as s_8f2k. */
export type SessionId = string

export type SessionsQuery = {
  /** Where to go on: `next` of the page before. */
  cursor?: string | null
  limit?: number | null
}

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

/** In the form of a tenant name such as local. */
export type TenantId = string

export type TenantTerms = {
  /** The least careful profile under which its plans are shown. */
  profile?: string | null
  /** Limits by the names of the quotas. */
  quotas?: Record<string, number>
  /** Directories below which its projects lie; absolute paths. */
  roots?: Array<string>
}

/** What a client wants done. */
export type Trigger = 'submit-message' | 'regenerate-message'

export type UsageQuery = {
  /** How many days are told, today included. */
  days?: number | null
}

/** Every route of a server. */
export class Glasshouse {
  readonly #transport: Transport

  constructor(server: Server) {
    this.#transport = new Transport(server)
  }

  /** The routes, a page that is made of the description. `GET /docs` */
  getDocs(more: More = {}): Promise<Uint8Array> {
    return this.#transport.bytes('GET', `/docs`, { more })
  }

  /** Its script. `GET /docs.js` */
  getDocsJs(more: More = {}): Promise<Uint8Array> {
    return this.#transport.bytes('GET', `/docs.js`, { more })
  }

  /** The lane sandbox-iframe, with its headers. `GET /lanes/frame.html` */
  getLanesFrameHtml(more: More = {}): Promise<Uint8Array> {
    return this.#transport.bytes('GET', `/lanes/frame.html`, { more })
  }

  /** What a page runs code of plans with. `GET /lanes/host.js` */
  getLanesHostJs(more: More = {}): Promise<Uint8Array> {
    return this.#transport.bytes('GET', `/lanes/host.js`, { more })
  }

  /** The lane sandbox-worker, with its headers. `GET /lanes/worker.html` */
  getLanesWorkerHtml(more: More = {}): Promise<Uint8Array> {
    return this.#transport.bytes('GET', `/lanes/worker.html`, { more })
  }

  /** This description of the API. `GET /openapi.json` */
  getOpenapiJson(more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/openapi.json`, { more })
  }

  /** The playground of plans, a page. `GET /playground` */
  getPlayground(more: More = {}): Promise<Uint8Array> {
    return this.#transport.bytes('GET', `/playground`, { more })
  }

  /** Its style. `GET /playground.css` */
  getPlaygroundCss(more: More = {}): Promise<Uint8Array> {
    return this.#transport.bytes('GET', `/playground.css`, { more })
  }

  /** Its script. `GET /playground.js` */
  getPlaygroundJs(more: More = {}): Promise<Uint8Array> {
    return this.#transport.bytes('GET', `/playground.js`, { more })
  }

  /** Questions that wait for a person. `GET /v1/approvals` */
  getApprovals(more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/approvals`, { more })
  }

  /** One question, with what is asked for. `GET /v1/approvals/{approval}` */
  getApprovalsByApproval(approval: string | number, more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/approvals/${encodeURIComponent(approval)}`, { more })
  }

  /** Answer a question. `POST /v1/approvals/{approval}` */
  postApprovalsByApproval(approval: string | number, body: ApprovalAnswer, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/approvals/${encodeURIComponent(approval)}`, { body, more })
  }

  /** The newest signed head. `GET /v1/audit/checkpoint` */
  getAuditCheckpoint(more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/audit/checkpoint`, { more })
  }

  /** Prove that an event is in the log. `GET /v1/audit/proofs/{branch}/{seq}` */
  getAuditProofsByBranchBySeq(branch: string | number, seq: string | number, more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/audit/proofs/${encodeURIComponent(branch)}/${encodeURIComponent(seq)}`, { more })
  }

  /** Verify the whole log. `POST /v1/audit/verify` */
  postAuditVerify(more: More = {}): Promise<unknown> {
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
  getChatBySessionMessages(session: string | number, query: { branch?: string } = {}, more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/chat/${encodeURIComponent(session)}/messages`, { query, more })
  }

  /** Stop the turn that a chat is at; 204 where none runs. `POST /v1/chat/{session}/stop` */
  postChatBySessionStop(session: string | number, body: ChatStop = {}, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/chat/${encodeURIComponent(session)}/stop`, { body, more })
  }

  /** Follow the message that a chat is at; 204 where none is being made. `GET /v1/chat/{session}/stream` */
  getChatBySessionStream(session: string | number, query: { branch?: string } = {}, more: More = {}): Promise<Connection> {
    return this.#transport.stream('GET', `/v1/chat/${encodeURIComponent(session)}/stream`, { query, more })
  }

  /** Rights that people gave. `GET /v1/grants` */
  getGrants(query: { all?: boolean } = {}, more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/grants`, { query, more })
  }

  /** Take a right back. `DELETE /v1/grants/{grant}` */
  deleteGrantsByGrant(grant: string | number, more: More = {}): Promise<unknown> {
    return this.#transport.json('DELETE', `/v1/grants/${encodeURIComponent(grant)}`, { more })
  }

  /** Whether the process answers. `GET /v1/health` */
  getHealth(more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/health`, { more })
  }

  /** Keys of the tenant. `GET /v1/keys` */
  getKeys(more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/keys`, { more })
  }

  /** Make a key; the answer alone has its text. `POST /v1/keys` */
  postKeys(body: NewKey, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/keys`, { body, more })
  }

  /** Take a key back. `DELETE /v1/keys/{key}` */
  deleteKeysByKey(key: string | number, more: More = {}): Promise<unknown> {
    return this.#transport.json('DELETE', `/v1/keys/${encodeURIComponent(key)}`, { more })
  }

  /** Make a key in the place of another one. `POST /v1/keys/{key}/rotate` */
  postKeysByKeyRotate(key: string | number, body: KeyRotation = {}, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/keys/${encodeURIComponent(key)}/rotate`, { body, more })
  }

  /** What the server counts, for Prometheus. `GET /v1/metrics` */
  getMetrics(more: More = {}): Promise<string> {
    return this.#transport.text('GET', `/v1/metrics`, { more })
  }

  /** Plans with their versions, and the newest runs. `GET /v1/plans` */
  getPlans(query: { runs?: number } = {}, more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/plans`, { query, more })
  }

  /** Show a plan and register it. `POST /v1/plans` */
  postPlans(body: NewPlan, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/plans`, { body, more })
  }

  /** List plans and runs no more; the log keeps their events. `POST /v1/plans/clear` */
  postPlansClear(more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/plans/clear`, { more })
  }

  /** What a plan needs, and whether a profile accepts it. `POST /v1/plans/probe` */
  postPlansProbe(body: PlanProbe, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/plans/probe`, { body, more })
  }

  /** Let a model make a plan, show it and register it. `POST /v1/plans/prompt` */
  postPlansPrompt(body: PlanPrompt, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/plans/prompt`, { body, more })
  }

  /** The same, with previews while the plan comes, a JSON object a line. `POST /v1/plans/prompt/stream` */
  postPlansPromptStream(body: PlanPrompt, more: More = {}): Promise<Uint8Array> {
    return this.#transport.bytes('POST', `/v1/plans/prompt/stream`, { body, more })
  }

  /** Make a run again and compare. `POST /v1/plans/runs/{run}/replay` */
  postPlansRunsByRunReplay(run: string | number, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/plans/runs/${encodeURIComponent(run)}/replay`, { more })
  }

  /** Handle an event on a plan. `POST /v1/plans/{plan}/events` */
  postPlansByPlanEvents(plan: string | number, body: PlanEvent, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/plans/${encodeURIComponent(plan)}/events`, { body, more })
  }

  /** Show an earlier version again. `POST /v1/plans/{plan}/rollback` */
  postPlansByPlanRollback(plan: string | number, body: PlanRollback, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/plans/${encodeURIComponent(plan)}/rollback`, { body, more })
  }

  /** The state that is shown. `GET /v1/plans/{plan}/state` */
  getPlansByPlanState(plan: string | number, more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/plans/${encodeURIComponent(plan)}/state`, { more })
  }

  /** The rules that would decide in a project. `GET /v1/policy` */
  getPolicy(query: { project: string }, more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/policy`, { query, more })
  }

  /** Accept a policy for a project. `POST /v1/policy/approve` */
  postPolicyApprove(body: PolicyApproval, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/policy/approve`, { body, more })
  }

  /** What would decide a call. `POST /v1/policy/check` */
  postPolicyCheck(body: PolicyCall, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/policy/check`, { body, more })
  }

  /** What would decide a call, and what would make it another decision. `POST /v1/policy/explain` */
  postPolicyExplain(body: PolicyCall, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/policy/explain`, { body, more })
  }

  /** What accepting a policy would change. `POST /v1/policy/propose` */
  postPolicyPropose(body: PolicyProposal, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/policy/propose`, { body, more })
  }

  /** Try another policy on past decisions. `POST /v1/policy/simulate` */
  postPolicySimulate(body: PolicyCandidate, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/policy/simulate`, { body, more })
  }

  /** Whether work can be taken. `GET /v1/ready` */
  getReady(more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/ready`, { more })
  }

  /** Sandboxes that run, or those of a session. `GET /v1/sandboxes` */
  getSandboxes(query: { session?: SessionId | null } = {}, more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/sandboxes`, { query, more })
  }

  /** Remove what ended sandboxes left, or tell what that would be. `POST /v1/sandboxes/sweep` */
  postSandboxesSweep(body: SandboxSweep = {}, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/sandboxes/sweep`, { body, more })
  }

  /** One sandbox. `GET /v1/sandboxes/{sandbox}` */
  getSandboxesBySandbox(sandbox: string | number, query: { session?: SessionId | null } = {}, more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/sandboxes/${encodeURIComponent(sandbox)}`, { query, more })
  }

  /** Words in messages, answers, calls, outputs and commits. `GET /v1/search` */
  getSearch(query: { limit?: number; q: string; session?: SessionId | null }, more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/search`, { query, more })
  }

  /** Sessions, newest first. `GET /v1/sessions` */
  getSessions(query: { cursor?: string; limit?: number } = {}, more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/sessions`, { query, more })
  }

  /** Start a session on a project. `POST /v1/sessions` */
  postSessions(body: NewSession, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/sessions`, { body, more })
  }

  /** Erase what a session said; every proof stays. `DELETE /v1/sessions/{session}` */
  deleteSessionsBySession(session: string | number, query: { keep_blobs?: boolean } = {}, more: More = {}): Promise<unknown> {
    return this.#transport.json('DELETE', `/v1/sessions/${encodeURIComponent(session)}`, { query, more })
  }

  /** One session. `GET /v1/sessions/{session}` */
  getSessionsBySession(session: string | number, more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/sessions/${encodeURIComponent(session)}`, { more })
  }

  /** Branches of a session. `GET /v1/sessions/{session}/branches` */
  getSessionsBySessionBranches(session: string | number, more: More = {}): Promise<Branches> {
    return this.#transport.json('GET', `/v1/sessions/${encodeURIComponent(session)}/branches`, { more })
  }

  /** Fork a branch at an event. `POST /v1/sessions/{session}/branches` */
  postSessionsBySessionBranches(session: string | number, body: NewFork = {}, more: More = {}): Promise<Branch> {
    return this.#transport.json('POST', `/v1/sessions/${encodeURIComponent(session)}/branches`, { body, more })
  }

  /** Merge a branch into another, or tell what that would do. `POST /v1/sessions/{session}/branches/{branch}/merge` */
  postSessionsBySessionBranchesByBranchMerge(session: string | number, branch: string | number, body: NewMerge = {}, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/sessions/${encodeURIComponent(session)}/branches/${encodeURIComponent(branch)}/merge`, { body, more })
  }

  /** End a session for good. `POST /v1/sessions/{session}/close` */
  postSessionsBySessionClose(session: string | number, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/sessions/${encodeURIComponent(session)}/close`, { more })
  }

  /** What a session's models cost. `GET /v1/sessions/{session}/costs` */
  getSessionsBySessionCosts(session: string | number, more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/sessions/${encodeURIComponent(session)}/costs`, { more })
  }

  /** Files that differ between two branches, or two events. `GET /v1/sessions/{session}/diff` */
  getSessionsBySessionDiff(session: string | number, query: { branch?: string; from?: number; names?: boolean; to?: number; with?: string } = {}, more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/sessions/${encodeURIComponent(session)}/diff`, { query, more })
  }

  /** Events of a branch. `GET /v1/sessions/{session}/events` */
  getSessionsBySessionEvents(session: string | number, query: { branch?: string; from?: number; limit?: number } = {}, more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/sessions/${encodeURIComponent(session)}/events`, { query, more })
  }

  /** Follow a branch: what is stored, then what comes. `GET /v1/sessions/{session}/events/stream` */
  getSessionsBySessionEventsStream(session: string | number, query: { branch?: string; from?: number } = {}, more: More = {}): Promise<Connection> {
    return this.#transport.stream('GET', `/v1/sessions/${encodeURIComponent(session)}/events/stream`, { query, more })
  }

  /** Why something was decided. `GET /v1/sessions/{session}/events/{seq}/explanation` */
  getSessionsBySessionEventsBySeqExplanation(session: string | number, seq: string | number, query: { branch?: string } = {}, more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/sessions/${encodeURIComponent(session)}/events/${encodeURIComponent(seq)}/explanation`, { query, more })
  }

  /** Make a branch again from its inputs and compare. `POST /v1/sessions/{session}/replay` */
  postSessionsBySessionReplay(session: string | number, body: BranchChoice = {}, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/sessions/${encodeURIComponent(session)}/replay`, { body, more })
  }

  /** Start a turn, or carry on the last one. `POST /v1/sessions/{session}/turns` */
  postSessionsBySessionTurns(session: string | number, body: NewTurn = {}, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/sessions/${encodeURIComponent(session)}/turns`, { body, more })
  }

  /** Stop a turn. `POST /v1/sessions/{session}/turns/{turn}/cancel` */
  postSessionsBySessionTurnsByTurnCancel(session: string | number, turn: string | number, body: CancelTurn = {}, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/sessions/${encodeURIComponent(session)}/turns/${encodeURIComponent(turn)}/cancel`, { body, more })
  }

  /** Say something to a turn that runs. `POST /v1/sessions/{session}/turns/{turn}/steer` */
  postSessionsBySessionTurnsByTurnSteer(session: string | number, turn: string | number, body: SteerTurn, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/sessions/${encodeURIComponent(session)}/turns/${encodeURIComponent(turn)}/steer`, { body, more })
  }

  /** A document of a branch: manifest, thread, plan, heartbeat, checkpoints, tools, observations, soul, inbox, outbox. `GET /v1/sessions/{session}/views/{view}` */
  getSessionsBySessionViewsByView(session: string | number, view: string | number, query: { branch?: string } = {}, more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/sessions/${encodeURIComponent(session)}/views/${encodeURIComponent(view)}`, { query, more })
  }

  /** Tenants of the server. `GET /v1/tenants` */
  getTenants(more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/tenants`, { more })
  }

  /** Make a tenant. `POST /v1/tenants` */
  postTenants(body: NewTenant, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/tenants`, { body, more })
  }

  /** Let nobody use a tenant any more. `DELETE /v1/tenants/{tenant}` */
  deleteTenantsByTenant(tenant: string | number, more: More = {}): Promise<unknown> {
    return this.#transport.json('DELETE', `/v1/tenants/${encodeURIComponent(tenant)}`, { more })
  }

  /** Change what a tenant may do. `PUT /v1/tenants/{tenant}` */
  putTenantsByTenant(tenant: string | number, body: TenantTerms, more: More = {}): Promise<unknown> {
    return this.#transport.json('PUT', `/v1/tenants/${encodeURIComponent(tenant)}`, { body, more })
  }

  /** Make a key of a tenant. `POST /v1/tenants/{tenant}/keys` */
  postTenantsByTenantKeys(tenant: string | number, body: NewKey, more: More = {}): Promise<unknown> {
    return this.#transport.json('POST', `/v1/tenants/${encodeURIComponent(tenant)}/keys`, { body, more })
  }

  /** What all sessions used, by day and model. `GET /v1/usage` */
  getUsage(query: { days?: number } = {}, more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/usage`, { query, more })
  }

  /** Who asks, and what the tenant may use. `GET /v1/whoami` */
  getWhoami(more: More = {}): Promise<unknown> {
    return this.#transport.json('GET', `/v1/whoami`, { more })
  }
}
