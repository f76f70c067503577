// A chat in the terminal with an agent behind glass, by the AI SDK.
//
//   node chat.mjs URL TOKEN-FILE PROJECT [PROVIDER MODEL [SCENARIO]]
//
// A line that you type is a message. A call that the policy wants a person for is shown and asked. An empty line ends.
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, readUIMessageStream } from 'ai'

const [url, tokenFile, project, provider, model, scenario] = process.argv.slice(2)
if (!project) {
  console.error('usage: node chat.mjs URL TOKEN-FILE PROJECT [PROVIDER MODEL [SCENARIO]]')
  process.exit(2)
}
const headers = {
  Authorization: `Bearer ${readFileSync(tokenFile, 'utf8').trim()}`,
  'X-AI-SDK-Version': '7',
}

// A chat is a session.
const created = await fetch(`${url}/v1/sessions`, {
  method: 'POST',
  headers: { ...headers, 'content-type': 'application/json' },
  body: JSON.stringify({ project, provider, model, scenario: scenario && readFileSync(scenario, 'utf8') }),
})
if (!created.ok) throw new Error(await created.text())
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

// Sends a message and shows the answer as it comes; gives the whole message.
async function send(message, before) {
  const stream = await transport.sendMessages({
    chatId, messages: [message], trigger: 'submit-message', messageId: undefined, abortSignal: undefined,
  })
  const shown = new Map()
  let last = before
  for await (const now of readUIMessageStream({ stream, message: before })) {
    last = now
    now.parts.forEach((part, at) => {
      if (part.type === 'text') {
        process.stdout.write(part.text.slice(shown.get(at) ?? 0))
        if (part.state === 'done' && shown.get(at) !== Infinity) process.stdout.write('\n')
        shown.set(at, part.state === 'done' ? Infinity : part.text.length)
      } else if (part.type === 'dynamic-tool' && shown.get(at) !== part.state) {
        console.log(`  [${part.toolName} ${part.state}] ${JSON.stringify(part.input).slice(0, 100)}`)
        shown.set(at, part.state)
      }
    })
  }
  return last
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const ask = async prompt => {
  process.stdout.write(prompt)
  return (await lines.next()).value ?? ''
}

for (let number = 1; ; number += 1) {
  const text = await ask('> ')
  if (!text.trim()) break
  let answer = await send({ id: `m${number}`, role: 'user', parts: [{ type: 'text', text }] })
  // The stream ends at a question; its answer is bound to the call and its arguments, and the turn goes on.
  for (;;) {
    const questions = answer.parts.filter(part => part.state === 'approval-requested')
    if (questions.length === 0) break
    for (const part of questions) {
      const yes = (await ask(`allow ${part.toolName} ${JSON.stringify(part.input)}? [y/N] `)).trim() === 'y'
      part.state = 'approval-responded'
      part.approval = { ...part.approval, approved: yes }
    }
    if (!lastAssistantMessageIsCompleteWithApprovalResponses({ messages: [answer] })) break
    answer = await send(answer, answer)
  }
}
process.exit(0)
