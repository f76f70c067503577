// A chat of the AI SDK with a server: says things, answers questions, stops and resumes; prints what it has.
// Arguments: URL SESSION VERSION; the token is in TOKEN.
import { readFileSync } from 'node:fs'

const [url, session, version] = process.argv.slice(2)
const ai = await import(version === '6' ? 'ai6' : 'ai')
const headers = {
  Authorization: `Bearer ${process.env.TOKEN}`,
  'X-AI-SDK-Version': version,
}

class State {
  status = 'ready'
  error = undefined
  messages = []
  pushMessage = message => { this.messages = [...this.messages, message] }
  popMessage = () => { this.messages = this.messages.slice(0, -1) }
  replaceMessage = (at, message) => {
    this.messages = [...this.messages.slice(0, at), this.snapshot(message), ...this.messages.slice(at + 1)]
  }
  snapshot = thing => structuredClone(thing)
}

class Chat extends ai.AbstractChat {
  constructor(messages = []) {
    const state = new State()
    state.messages = messages
    super({
      id: session,
      state,
      transport: new ai.DefaultChatTransport({ api: `${url}/v1/chat`, headers }),
      sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithApprovalResponses,
      onError: error => { failures.push(String(error.message)) },
    })
  }
}

const failures = []
const report = {}
const json = thing => JSON.parse(JSON.stringify(thing))
const parts = message => message.parts.filter(part => part.type === 'dynamic-tool')

async function until(what, check) {
  for (const end = Date.now() + 60_000; Date.now() < end; ) {
    if (check()) return
    await new Promise(done => setTimeout(done, 20))
  }
  throw new Error(`it never came to ${what}: ${JSON.stringify(chat.messages)}`)
}

const idle = await fetch(`${url}/v1/chat/${session}/stream`, { headers })
report.idle = idle.status

// Two calls, one of which asks and is approved; another one that asks and is denied; an interface.
const chat = new Chat()
let shown = 0
const watched = setInterval(() => {
  const text = chat.lastMessage?.parts?.find(part => part.type === 'text' && part.state === 'streaming')
  if (text?.text) shown += 1
}, 5)
await chat.sendMessage({ text: 'read what you may' })
clearInterval(watched)
report.asked = parts(chat.lastMessage).map(part => [part.toolName, part.state])
const questions = () => parts(chat.lastMessage).filter(part => part.state === 'approval-requested')

// Waits until a new message is at its first call.
const seen = new Set()
async function running() {
  await until('a running call', () => {
    const { id, role } = chat.lastMessage
    return role === 'assistant' && !seen.has(id) && parts(chat.lastMessage).length === 1
  })
  seen.add(chat.lastMessage.id)
}

// What is sent for another call, with other arguments or for nothing changes nothing.
report.forged = []
const [question] = questions()
const forge = async change => {
  const message = structuredClone(json(chat.lastMessage))
  const part = message.parts.find(part => part.toolCallId === question.toolCallId)
  Object.assign(part, { state: 'approval-responded', approval: { id: question.approval.id, approved: true } })
  change(part, message)
  const answer = await fetch(`${url}/v1/chat`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ id: session, messages: [message], trigger: 'submit-message' }),
  })
  report.forged.push([answer.status, (await answer.json()).code])
}
await forge(part => { part.input = { path: 'other.txt' } })
await forge(part => { part.toolCallId = 'c1' })
await forge(part => { part.approval.id = part.approval.id.replace(/\d+$/, '1') })
await forge(part => { part.approval.id = 'b_other:3' })
await forge(part => { part.approval.approved = 'yes' })
await forge((_, message) => { message.id = 'b_other:2' })

await chat.addToolApprovalResponse({ id: question.approval.id, approved: true })
await until('the second question', () => chat.status === 'ready' && questions().length === 1)
await chat.addToolApprovalResponse({ id: questions()[0].approval.id, approved: false })
await until('the end', () => chat.status === 'ready' && chat.lastMessage.metadata?.outcome)
report.first = json(chat.lastMessage)
report.shown = shown

// What was said stays said.
await chat.regenerate()
report.regenerated = failures.splice(0)
chat.messages = (await (await fetch(`${url}/v1/chat/${session}/messages`, { headers })).json()).messages
report.loaded = json(chat.messages)
chat.clearError()
chat.messages.forEach(message => seen.add(message.id))

// A turn is stopped.
const sent = chat.sendMessage({ text: 'wait' })
await running()
report.stopped = (await fetch(`${url}/v1/chat/${session}/stop`, { method: 'POST', headers })).status
await sent
report.aborted = json(chat.lastMessage)

// A page is loaded anew while an answer is made, and comes to the same message.
const going = chat.sendMessage({ text: 'go on' })
await running()
const loaded = (await (await fetch(`${url}/v1/chat/${session}/messages`, { headers })).json()).messages
const again = new Chat(loaded.slice(0, -1))
report.before = loaded.map(message => message.role)
await again.resumeStream()
await going
report.resumed = json(again.lastMessage)
report.live = json(chat.lastMessage)

// The stream by itself, read without a chat.
const other = chat.sendMessage({ text: 'and again' })
await running()
const transport = new ai.DefaultChatTransport({ api: `${url}/v1/chat`, headers })
const stream = await transport.reconnectToStream({ chatId: session })
const types = new Set()
const spied = stream.pipeThrough(new TransformStream({
  transform(chunk, to) { types.add(chunk.type); to.enqueue(chunk) },
}))
let read
for await (const message of ai.readUIMessageStream({ stream: spied })) read = message
await other
report.read = json(read)
report.readLive = json(chat.lastMessage)
report.types = [...types].sort()
report.over = (await transport.reconnectToStream({ chatId: session })) === null
report.failures = failures
console.log(JSON.stringify(report))
