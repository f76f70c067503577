// What the client does with a connection: requests, problems, streams. No package is needed.

/** Where a server is, and what it wants to know. */
export type Server = {
  /** As `glasshouse serve` printed it. */
  url: string
  /** What its token file holds. */
  token: string
  /** In the place of the global `fetch`. */
  fetch?: typeof fetch
}

/** What any request may have. */
export type More = {
  signal?: AbortSignal
  /** For instance `Idempotency-Key`. */
  headers?: Record<string, string>
}

type Request = {
  query?: Record<string, unknown>
  body?: unknown
  more: More
}

/** An answer that tells an error: a problem of RFC 9457 with the members that errors have everywhere. */
export class GlasshouseError extends Error {
  readonly status: number
  readonly code: string
  readonly fix: string
  readonly retryable: boolean
  readonly context: Record<string, unknown>

  constructor(status: number, problem: Record<string, unknown>) {
    super(String(problem.detail ?? `status ${status}`))
    this.name = 'GlasshouseError'
    this.status = status
    this.code = String(problem.code ?? '')
    this.fix = String(problem.fix ?? '')
    this.retryable = problem.retryable === true
    this.context = (problem.context ?? {}) as Record<string, unknown>
  }
}

/** A frame of a stream. */
export type Frame = {
  /** What to send as `Last-Event-ID` to go on after it. */
  id: string | undefined
  /** `message` unless the server says. */
  event: string
  data: string
}

/** A stream that is open; leaving the loop closes it. */
export type Connection = AsyncIterable<Frame>

/** Objects that come one after the other; leaving the loop closes the connection. */
export type Lines = AsyncIterable<Record<string, unknown>>

/** Sends requests. */
export class Transport {
  readonly #server: Server

  constructor(server: Server) {
    this.#server = { ...server, url: server.url.replace(/\/+$/, '') }
  }

  async #send(method: string, path: string, request: Request): Promise<Response> {
    const url = new URL(this.#server.url + path)
    for (const [name, value] of Object.entries(request.query ?? {})) {
      if (value !== undefined && value !== null) url.searchParams.set(name, String(value))
    }
    const headers: Record<string, string> = {
      authorization: `Bearer ${this.#server.token}`,
      ...request.more.headers,
    }
    const init: RequestInit = { method, headers, redirect: 'error' }
    if (request.more.signal) init.signal = request.more.signal
    if (request.body !== undefined) {
      headers['content-type'] = 'application/json'
      init.body = JSON.stringify(request.body)
    }
    const answer = await (this.#server.fetch ?? fetch)(url, init)
    if (answer.ok) return answer
    const text = await answer.text()
    let problem: Record<string, unknown>
    try {
      problem = JSON.parse(text)
    } catch {
      problem = { detail: text }
    }
    throw new GlasshouseError(answer.status, problem)
  }

  /** An answer as JSON; `undefined` where there is none, and a text where it is no JSON. */
  async json<T>(method: string, path: string, request: Request): Promise<T> {
    const answer = await this.#send(method, path, request)
    const text = await answer.text()
    if (text === '') return undefined as T
    const media = answer.headers.get('content-type') ?? ''
    return (media.startsWith('application/json') ? JSON.parse(text) : text) as T
  }

  async text(method: string, path: string, request: Request): Promise<string> {
    return (await this.#send(method, path, request)).text()
  }

  async bytes(method: string, path: string, request: Request): Promise<Uint8Array> {
    return new Uint8Array(await (await this.#send(method, path, request)).arrayBuffer())
  }

  async stream(method: string, path: string, request: Request): Promise<Connection> {
    const answer = await this.#send(method, path, request)
    return frames(answer.body ?? new ReadableStream())
  }

  async lines(method: string, path: string, request: Request): Promise<Lines> {
    const answer = await this.#send(method, path, request)
    return objects(answer.body ?? new ReadableStream())
  }
}

/** A body's lines. What one ends with may be cut between two pieces of the body, but no line holds its end. */
async function* lines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let rest = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      const whole = (rest + decoder.decode(value, { stream: true })).split('\n')
      rest = whole.pop() ?? ''
      yield* whole
    }
    if (rest !== '') yield rest
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

/** An object a line; one that tells an error is thrown. */
async function* objects(body: ReadableStream<Uint8Array>): AsyncGenerator<Record<string, unknown>> {
  for await (const line of lines(body)) {
    if (line === '') continue
    const told = JSON.parse(line) as Record<string, unknown>
    const problem = told.type === 'error' ? told.problem as Record<string, unknown> : undefined
    if (problem) throw new GlasshouseError(Number(problem.status ?? 0), problem)
    yield told
  }
}

async function* frames(body: ReadableStream<Uint8Array>): AsyncGenerator<Frame> {
  let frame: Frame = { id: undefined, event: 'message', data: '' }
  let hasData = false
  for await (const line of lines(body)) {
    if (line === '') {
      if (hasData) yield frame
      frame = { id: frame.id, event: 'message', data: '' }
      hasData = false
      continue
    }
    const colon = line.indexOf(':')
    const name = colon < 0 ? line : line.slice(0, colon)
    const text = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (name === 'id') frame.id = text
    if (name === 'event') frame.event = text
    if (name === 'data') {
      frame.data += hasData ? `\n${text}` : text
      hasData = true
    }
  }
}
