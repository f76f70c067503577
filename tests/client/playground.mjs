// Drives the pages of the server in Chromium, by the DevTools protocol over pipes. Prints what it saw.
// Arguments: CHROMIUM URL FOLDER; the token is in TOKEN; pictures go to FOLDER.
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

const [program, url, folder] = process.argv.slice(2)
const profile = join(folder, 'profile')
const browser = spawn(program, [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--hide-scrollbars', `--user-data-dir=${profile}`, '--remote-debugging-pipe',
], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] })
const end = code => {
  browser.kill('SIGKILL')
  browser.once('exit', () => process.exit(code))
}

let last = 0
const waiting = new Map()
const requests = []
const errors = []
let rest = ''
browser.stdio[4].on('data', bytes => {
  const texts = (rest + bytes).split('\0')
  rest = texts.pop()
  for (const { id, result, error, method, params } of texts.map(text => JSON.parse(text))) {
    if (id) {
      const { done, fail } = waiting.get(id)
      waiting.delete(id)
      error ? fail(new Error(error.message)) : done(result)
    }
    if (method === 'Network.requestWillBeSent') requests.push(params.request.url)
    if (method === 'Runtime.exceptionThrown') errors.push(params.exceptionDetails.text)
    if (method === 'Log.entryAdded' && params.entry.level === 'error') errors.push(params.entry.text)
  }
})
let session
const send = (method, params = {}) => new Promise((done, fail) => {
  last += 1
  waiting.set(last, { done, fail })
  browser.stdio[3].write(JSON.stringify({ id: last, method, params, sessionId: session }) + '\0')
})
const run = async expression => {
  const { result, exceptionDetails } = await send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true })
  if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`)
  return result.value
}
const until = async (what, expression) => {
  for (const end = Date.now() + 30_000; Date.now() < end; ) {
    if (await run(expression)) return
    await new Promise(done => setTimeout(done, 50))
  }
  throw new Error(`never: ${what}; ${await run('document.body.innerText')}`)
}
const fill = (id, text) => run(`document.getElementById(${JSON.stringify(id)}).value = ${JSON.stringify(text)}`)
const value = id => run(`(e => e.value ?? e.textContent)(document.getElementById(${JSON.stringify(id)}))`)
const click = async (id, word) => {
  await run(`document.getElementById(${JSON.stringify(id)}).click()`)
  await until(word, `document.getElementById('status').textContent.startsWith(${JSON.stringify(`${word}: `)})`)
  return run(`document.getElementById('status').textContent`)
}
const picture = async name => {
  const { data } = await send('Page.captureScreenshot', { format: 'png' })
  writeFileSync(join(folder, name), Buffer.from(data, 'base64'))
}

const counter = {
  specVersion: 'runtime-plan/v1', id: 'counter', version: 1,
  state: { initial: { count: 0 }, transitions: { add: [{ type: 'increment', path: 'count' }] } },
  capabilities: { domWrite: true },
  root: { type: 'element', tag: 'main', children: [
    { type: 'element', tag: 'h1', children: [{ type: 'text', value: 'Count' }] },
    { type: 'element', tag: 'p', children: [{ type: 'text', value: 'It is {{state.count}}.' }] },
  ] },
}
const scenario = `version: 1
steps:
  - emit: [ { text: ${JSON.stringify(JSON.stringify(counter))} } ]
`

try {
  const { targetId } = await send('Target.createTarget', { url: 'about:blank' })
  session = (await send('Target.attachToTarget', { targetId, flatten: true })).sessionId
  for (const domain of ['Page', 'Runtime', 'Network', 'Log']) await send(`${domain}.enable`)
  await send('Emulation.setDeviceMetricsOverride', { width: 1280, height: 900, deviceScaleFactor: 1, mobile: false })
  const report = {}
  const open = async path => {
    await send('Page.navigate', { url: `${url}${path}` })
    await until('loaded', 'document.readyState === "complete" && !!document.querySelector("header")')
  }
  await open('/playground')
  report.closed = await run('document.getElementById("status").textContent')
  await send('Page.navigate', { url: 'about:blank' })
  await open(`/playground#token=${process.env.TOKEN}`)
  await until('entered', 'document.getElementById("status").textContent === "Enter: done"')
  report.address = await run('location.href.endsWith("/playground")')
  await fill('prompt', 'a counter')
  await fill('provider', 'scripted')
  await fill('scenario', scenario)
  report.asked = await click('ask', 'Ask')
  report.previews = (await value('patches')).split('\n').length
  report.shown = await value('shown')
  await fill('event', 'add')
  report.event = await click('send', 'Event')
  report.patches = await value('patches')
  await click('state', 'State')
  report.state = JSON.parse(await value('diagnostics')).state
  await fill('plan', JSON.stringify({ ...counter, version: 2, root: { type: 'element', tag: 'p', children: [{ type: 'text', value: 'Two {{state.count}}' }] } }))
  report.second = await click('show', 'Show')
  report.shownSecond = await value('shown')
  report.frame = await run('document.getElementById("frame").srcdoc.includes("<p>Two 0</p>")')
  report.sandbox = await run('document.getElementById("frame").getAttribute("sandbox")')
  await picture('playground.png')
  await run(`[...document.querySelectorAll('#versions button')].find(b => b.ariaLabel === 'Roll back counter 1').click()`)
  await until('rolled back', 'document.getElementById("status").textContent === "Roll back: done"')
  report.rolledBack = await value('shown')
  await run(`document.querySelector('#runs button').click()`)
  await until('replayed', 'document.getElementById("status").textContent === "Replay: done"')
  report.replayed = await value('diagnostics')
  await fill('plan', JSON.stringify({ ...counter, root: { type: 'element', tag: 'script', children: [] } }))
  report.refused = await click('show', 'Show')
  report.why = await value('diagnostics')
  report.probe = await click('probe', 'Probe')
  report.probed = JSON.parse(await value('diagnostics')).report?.safe ?? JSON.parse(await value('diagnostics')).safe
  report.cleared = await click('clear', 'Clear')
  report.left = await run('document.querySelectorAll("#versions li").length')
  // What the page itself did against its own policy, before it is made to.
  report.policy = errors.filter(text => text.includes('Content Security Policy'))
  // A page cannot be made to run what it shows.
  report.inline = await run(`new Promise(done => {
    const script = document.createElement('script')
    script.textContent = 'window.ran = true'
    document.body.append(script)
    setTimeout(() => done(window.ran === true), 50)
  })`)
  report.errors = errors.filter(text => !text.includes('Content Security Policy') && !text.includes('status of 4'))
  await open('/docs')
  await until('routes', 'document.querySelectorAll("section").length > 30')
  await picture('docs.png')
  report.routes = await run('document.querySelectorAll("section").length')
  // Names of members and of other schemas, and values: what a schema says and its text does not.
  report.untold = await run(`(${async () => {
    const words = schema => Object.entries(schema ?? {}).flatMap(([word, value]) => {
      if (word === '$ref') return [value.split('/').pop()]
      if (word === 'const') return [JSON.stringify(value)]
      if (word === 'enum') return value.map(one => JSON.stringify(one))
      if (word === 'properties') return Object.entries(value).flatMap(([key, one]) => [key, ...words(one)])
      if (['anyOf', 'oneOf', 'allOf'].includes(word)) return value.flatMap(words)
      if (word === 'items') return ['list of', ...words(value)]
      return word === 'additionalProperties' && typeof value === 'object' ? words(value) : []
    })
    const told = await (await fetch('/openapi.json')).json()
    return Object.entries(told.components.schemas).flatMap(([own, schema]) => {
      const text = document.querySelector(`[data-schema="${own}"] pre`)?.textContent ?? ''
      const missing = words(schema).filter(word => !text.includes(word))
      return text === '' || text.includes('undefined') || missing.length ? [`${own}: ${missing}`] : []
    })
  }})()`)
  report.outside = requests.filter(one => !one.startsWith(`${url}/`) && !/^(data|about|blob):/.test(one))
  console.log(JSON.stringify(report))
  end(0)
} catch (error) {
  console.error(error)
  end(1)
}
