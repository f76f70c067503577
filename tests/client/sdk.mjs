// The client for TypeScript against a server; prints what it was told, one object.
// Arguments: URL CLIENT PROJECT SCENARIO PLAN_SCENARIO; the token is in TOKEN.
const [url, client, project, scenario, planScenario] = process.argv.slice(2)
const { follow, Glasshouse, GlasshouseError } = await import(client)
const server = new Glasshouse({ url, token: process.env.TOKEN })
const report = { health: await server.getHealth() }

const told = async (what, doing) => {
  try {
    await doing()
  } catch (error) {
    report[what] = {
      is: error instanceof GlasshouseError, status: error.status, code: error.code, retryable: error.retryable,
      fix: error.fix !== '',
    }
  }
}

// A session, a turn, and its events one after the other, while they come.
const { session } = await server.postSessions({ project, provider: 'scripted', model: 'scripted', scenario })
const place = await server.postSessionsBySessionTurns(session, { message: 'go' }, { headers: { 'Idempotency-Key': 'one' } })
const again = await server.postSessionsBySessionTurns(session, { message: 'go' }, { headers: { 'Idempotency-Key': 'one' } })
report.turn = place.turn === again.turn
report.events = []
for await (const event of follow(server, session)) {
  report.events.push([event.seq, event.kind])
  if (event.kind === 'turn.completed') break
}
report.list = (await server.getSessions({ limit: 1 })).sessions.map(one => one.session === session)
report.view = await server.getSessionsBySessionViewsByView(session, 'thread')

// The frames of a stream as they are, from an event on; what is asked for ends with its signal.
const stop = new AbortController()
report.frames = []
try {
  const frames = await server.getSessionsBySessionEventsStream(session, { from: 2 }, { signal: stop.signal })
  for await (const frame of frames) {
    // What came in the same piece as the third one is still told.
    if (report.frames.length < 3) report.frames.push([frame.id, frame.event])
    else stop.abort()
  }
} catch (error) {
  report.aborted = error.name
}

// A plan of a model, line by line.
const plan = scenario => server.postPlansPromptStream({ prompt: 'a page', provider: 'scripted', scenario })
report.lines = []
let began
for await (const line of await plan(planScenario)) {
  began ??= performance.now()
  report.lines.push(line.type)
}
report.took = performance.now() - began
await told('planless', async () => {
  for await (const line of await plan('version: 1\nsteps: [ { emit: [ { error: { status: 401 } } ] } ]')) report.lines.push(line.type)
})

// Errors.
await told('unknown', () => server.getSessionsBySession('s_nothere00000'))
await told('invalid', () => server.postSessions({ project, marmalade: 1 }))
await told('refused', () => new Glasshouse({ url, token: 'other' }).getSessions())
console.log(JSON.stringify(report))
