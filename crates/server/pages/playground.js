// The playground. What a plan or a model wrote is only ever text here, or a document in a frame without scripts.
'use strict'

const $ = id => document.getElementById(id)
let shown = null

// The token comes behind `#`, which no server is sent, and leaves the address at once.
const given = new URLSearchParams(location.hash.slice(1)).get('token')
if (given) {
  sessionStorage.setItem('token', given)
  history.replaceState(null, '', location.pathname)
}
$('token').value = sessionStorage.getItem('token') ?? ''

function tell(text, bad = false) {
  $('status').textContent = text
  $('status').className = bad ? 'bad' : ''
}

async function request(method, path, body) {
  const headers = { authorization: `Bearer ${sessionStorage.getItem('token') ?? ''}` }
  if (body !== undefined) headers['content-type'] = 'application/json'
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) })
  if (!answer.ok) throw await answer.json()
  return answer
}

const json = async (method, path, body) => (await request(method, path, body)).json()
const text = value => JSON.stringify(value, null, 2)

// Does something that may be refused; the refusal is shown with what mends it.
async function attempt(what, act) {
  tell(`${what} …`)
  try {
    await act()
    tell(`${what}: done`)
  } catch (problem) {
    tell(`${what}: ${problem.code ?? problem}`, true)
    $('diagnostics').textContent = problem.code ? `${problem.what}\n${problem.why}\n${problem.fix}\n\n${text(problem.context)}` : String(problem)
  }
}

// A document of its own: no scripts, no requests, no place of ours.
function frame(markup) {
  const page = document.implementation.createHTMLDocument('')
  const policy = page.createElement('meta')
  policy.httpEquiv = 'Content-Security-Policy'
  policy.content = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'"
  const scheme = page.createElement('meta')
  scheme.name = 'color-scheme'
  scheme.content = 'light dark'
  page.head.append(policy, scheme)
  page.body.innerHTML = markup
  $('frame').srcdoc = `<!doctype html>${page.documentElement.outerHTML}`
}

function show(run) {
  shown = run.plan
  $('shown').textContent = `${run.plan}, version ${run.version}, revision ${run.revision}, run ${run.run}`
  frame(run.markup)
  $('patches').textContent = run.patches.map(patch => JSON.stringify(patch)).join('\n')
  const remarks = [...(run.notes ?? []).map(text), ...run.dropped.map(path => `not kept: ${path}`), ...(run.handled ? [] : ['the plan does nothing on this event'])]
  $('diagnostics').textContent = remarks.join('\n') || 'nothing to remark'
  const names = new Set((run.events ?? []).map(binding => binding.event?.type ?? binding.event?.name ?? ''))
  $('events').replaceChildren(...[...names].filter(Boolean).map(name => Object.assign(document.createElement('option'), { value: name })))
  return read()
}

function item(label, act) {
  const li = document.createElement('li')
  li.append(`${label} `)
  if (act) {
    const button = Object.assign(document.createElement('button'), { type: 'button', textContent: act.name })
    button.setAttribute('aria-label', `${act.name} ${label}`)
    button.addEventListener('click', act.run)
    li.append(button)
  }
  return li
}

async function read() {
  const { plans, runs } = await json('GET', '/v1/plans?runs=30')
  const versions = plans.flatMap(plan => plan.versions.map(version => item(
    `${plan.plan} ${version.version}${version.version === plan.current ? ' (shown)' : ''}`,
    { name: 'Roll back', run: () => attempt('Roll back', async () => show(await json('POST', `/v1/plans/${encodeURIComponent(plan.plan)}/rollback`, { version: version.version }))) },
  )))
  $('versions').replaceChildren(...versions)
  $('runs').replaceChildren(...runs.map(run => item(
    `${run.run} ${run.mode} ${run.status} ${run.plan ?? ''}`,
    run.status === 'succeeded' && run.mode !== 'replay' ? { name: 'Replay', run: () => attempt('Replay', async () => {
      const replayed = await json('POST', `/v1/plans/runs/${run.run}/replay`, {})
      $('diagnostics').textContent = replayed.equal ? `run ${run.run} comes out equal` : text(replayed)
      await read()
    }) } : null,
  )))
}

async function ask() {
  const body = { prompt: $('prompt').value, profile: $('profile').value }
  for (const name of ['provider', 'model', 'scenario']) if ($(name).value) body[name] = $(name).value
  const answer = await request('POST', '/v1/plans/prompt/stream', body)
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
  const told = []
  for (let rest = ''; ;) {
    const { done, value } = await reader.read()
    if (done) return
    const lines = (rest + value).split('\n')
    rest = lines.pop()
    for (const line of lines.map(JSON.parse)) {
      if (line.type === 'error') throw line.problem
      if (line.type === 'begins') told.length = 0
      if (line.type === 'preview') told.push(...line.frame.patches.map(patch => JSON.stringify(patch)))
      if (line.type === 'done') {
        $('plan').value = text(line.plan)
        await show(line.run)
      }
      $('patches').textContent = told.join('\n')
    }
  }
}

const on = (id, what, act) => $(id).addEventListener('click', () => attempt(what, act))
on('ask', 'Ask', ask)
on('show', 'Show', async () => show(await json('POST', '/v1/plans', { plan: $('plan').value, profile: $('profile').value })))
on('probe', 'Probe', async () => { $('diagnostics').textContent = text(await json('POST', '/v1/plans/probe', { plan: $('plan').value, profile: $('profile').value })) })
on('send', 'Event', async () => {
  const body = { event: $('event').value }
  if ($('payload').value) body.payload = JSON.parse($('payload').value)
  await show(await json('POST', `/v1/plans/${encodeURIComponent(shown ?? '')}/events`, body))
})
on('state', 'State', async () => { $('diagnostics').textContent = text(await json('GET', `/v1/plans/${encodeURIComponent(shown ?? '')}/state`)) })
on('reload', 'Read', read)
on('clear', 'Clear', async () => { await json('POST', '/v1/plans/clear', {}); await read() })
$('entrance').addEventListener('submit', event => {
  event.preventDefault()
  sessionStorage.setItem('token', $('token').value.trim())
  attempt('Enter', read)
})
if (sessionStorage.getItem('token')) attempt('Enter', read)
else tell('Enter the token of the server\'s token file')
