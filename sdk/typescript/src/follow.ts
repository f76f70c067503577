// A branch that is followed through breaks of the connection.
import type { Event, Glasshouse } from './api.ts'
import { GlasshouseError } from './runtime.ts'

/** Wait before the connection is made again, in milliseconds. */
const PAUSE_MS = 1_000

/**
 * Every event of a branch, once and in order: what is stored, then what comes. A connection that breaks is made again
 * and goes on after the last event. It ends when the signal says so or the server refuses.
 */
export async function* follow(
  server: Glasshouse,
  session: string,
  query: { branch?: string; from?: number } = {},
  signal?: AbortSignal,
): AsyncGenerator<Event> {
  let next = query.from ?? 1
  while (!signal?.aborted) {
    try {
      const more = signal ? { signal } : {}
      const stream = await server.getSessionsBySessionEventsStream(session, { ...query, from: next }, more)
      for await (const frame of stream) {
        if (frame.event === 'problem') throw new GlasshouseError(0, JSON.parse(frame.data))
        const event = JSON.parse(frame.data) as Event
        next = event.seq + 1
        yield event
      }
    } catch (error) {
      if (signal?.aborted) return
      if (error instanceof GlasshouseError && !error.retryable) throw error
    }
    await new Promise(done => setTimeout(done, PAUSE_MS))
  }
}
