// A chat in the terminal with an agent behind glass, by the AI SDK.
//
//   node chat.mjs URL TOKEN-FILE PROJECT [PROVIDER MODEL [BASE-URL]]
//   node chat.mjs URL TOKEN-FILE PROJECT scripted scripted SCENARIO
//
// A line that you type is a message. A call that the policy wants a person for is shown and asked. An empty line ends.
// The exit status is 1 when the server refused something or the last answer failed.
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, readUIMessageStream } from 'ai'

const [url, tokenFile, project, provider, model, last] = process.argv.slice(2)
if (!project) {
  console.error('usage: node chat.mjs URL TOKEN-FILE PROJECT [PROVIDER MODEL [BASE-URL | SCENARIO]]')
  process.exit(2)
}
const headers = {
  Authorization: `Bearer ${readFileSync(tokenFile, 'utf8').trim()}`,
  'X-AI-SDK-Version': '7',
}
// Of a scenario the text is sent, of a server of one's own the address.
const more = provider === 'scripted' ? { scenario: last && readFileSync(last, 'utf8') } : { base_url: last }

// An error of the server says what, why and what to do; anything else is told as it is.
function refused(text) {
  try {
    const { what, why, fix, code } = JSON.parse(text)
    return `${what} [${code}]${why ? `\n  why: ${why}` : ''}\n  fix: ${fix}`
  } catch {
    return text
  }
}

// A chat is a session.
const created = await fetch(`${url}/v1/sessions`, {
  method: 'POST',
  headers: { ...headers, 'content-type': 'application/json' },
  body: JSON.stringify({ project, provider, model, ...more }),
}).catch(error => ({ ok: false, text: () => `${url}: ${error.cause?.message ?? error.message}` }))
if (!created.ok) {
  console.error(`error: ${refused(await created.text())}`)
  process.exit(1)
}
const { session: chatId } = await created.json()
console.log(`session ${chatId}`)

const transport = new DefaultChatTransport({
  api: `${url}/v1/chat`,
  headers,
  // What was said before is in the log: only the last message is sent.
  prepareSendMessagesRequest: ({ id, messages, trigger }) => ({
    body: { id, messages: messages.slice(-1), trigger },
  }),
})

let failed = false

// Sends a message and shows the answer as it comes; gives the whole message. An answer that goes on after a question
// is the same message, so what of it was shown stays in `shown`.
async function send(message, before, shown) {
  failed = false
  const onError = error => {
    failed = true
    console.error(`error: ${refused(error instanceof Error ? error.message : String(error))}`)
  }
  let latest = before
  try {
    const stream = await transport.sendMessages({
      chatId, messages: [message], trigger: 'submit-message', messageId: undefined, abortSignal: undefined,
    })
    for await (const now of readUIMessageStream({ stream, message: before, onError })) {
      latest = now
      now.parts.forEach((part, at) => show(part, at, shown))
    }
  } catch (error) {
    onError(error)
  }
  const { outcome, commit } = latest?.metadata ?? {}
  if (commit) console.log(`committed ${commit}`)
  else if (outcome === 'committed') console.log('merged without a commit')
  else if (outcome && outcome !== 'answered' && !failed) console.log(outcome)
  return latest
}

function show(part, at, shown) {
  if (part.type === 'text') {
    const before = shown.get(at) ?? 0
    process.stdout.write(part.text.slice(before))
    if (part.state === 'done' && before !== Infinity) process.stdout.write('\n')
    shown.set(at, part.state === 'done' ? Infinity : part.text.length)
  } else if (part.type === 'dynamic-tool' && shown.get(at) !== part.state) {
    console.log(`  [${part.toolName} ${part.state}] ${JSON.stringify(part.input).slice(0, 100)}`)
    shown.set(at, part.state)
  }
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const ask = async prompt => {
  process.stdout.write(prompt)
  return (await lines.next()).value ?? ''
}

for (let number = 1; ; number += 1) {
  const text = await ask('> ')
  if (!text.trim()) break
  const shown = new Map()
  let answer = await send({ id: `m${number}`, role: 'user', parts: [{ type: 'text', text }] }, undefined, shown)
  // The stream ends at a question; its answer is bound to the call and its arguments, and the turn goes on.
  while (answer && !failed) {
    const questions = answer.parts.filter(part => part.state === 'approval-requested')
    if (questions.length === 0) break
    for (const part of questions) {
      const yes = (await ask(`allow ${part.toolName} ${JSON.stringify(part.input)}? [y/N] `)).trim() === 'y'
      part.state = 'approval-responded'
      part.approval = { ...part.approval, approved: yes }
    }
    if (!lastAssistantMessageIsCompleteWithApprovalResponses({ messages: [answer] })) break
    answer = await send(answer, answer, shown)
  }
}
process.exit(failed ? 1 : 0)
