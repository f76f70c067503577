// The routes of the server, made of its description.
'use strict'

const make = (tag, text) => Object.assign(document.createElement(tag), { textContent: text ?? '' })
const name = schema => (schema?.$ref ?? '').split('/').pop()

function schemaText(schema, all, depth = 0) {
  if (!schema || depth > 4) return '…'
  if (schema.$ref) return depth ? name(schema) : schemaText(all[name(schema)], all, depth + 1)
  const list = schema.anyOf ?? schema.oneOf
  if (list) return list.map(one => schemaText(one, all, depth + 1)).join(' | ')
  if (schema.enum) return schema.enum.map(value => JSON.stringify(value)).join(' | ')
  if ('const' in schema) return JSON.stringify(schema.const)
  if (schema.properties) {
    const lines = Object.entries(schema.properties).map(([key, one]) => {
      const optional = schema.required?.includes(key) ? '' : '?'
      const about = one.description ? `   // ${one.description.replaceAll('\n', ' ')}` : ''
      return `  ${key}${optional}: ${schemaText(one, all, depth + 1)}${about}`
    })
    return `{\n${lines.join('\n')}\n}`
  }
  return [schema.type ?? 'anything'].flat().join(' | ')
}

function section(path, method, operation, all) {
  const box = make('section')
  box.append(make('h2', `${method.toUpperCase()} ${path}`), make('p', operation.summary))
  if (operation.security?.length === 0) box.append(make('p', 'Needs no token.'))
  if (operation.parameters?.length) {
    const table = make('table')
    for (const one of operation.parameters) {
      const row = make('tr')
      row.append(make('td', one.name), make('td', one.in), make('td', one.description ?? ''))
      table.append(row)
    }
    box.append(table)
  }
  const body = operation.requestBody?.content?.['application/json']?.schema
  if (body) box.append(make('h3', 'Body'), make('pre', schemaText(body, all)))
  for (const [status, response] of Object.entries(operation.responses)) {
    const [media, told] = Object.entries(response.content ?? {})[0] ?? ['', {}]
    box.append(make('h3', `${status}: ${media}`))
    if (told.schema) box.append(make('pre', schemaText(told.schema, all)))
  }
  box.dataset.text = box.textContent.toLowerCase()
  return box
}

fetch('/openapi.json').then(answer => answer.json()).then(document_ => {
  const all = document_.components.schemas
  for (const [path, methods] of Object.entries(document_.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      document.getElementById('routes').append(section(path, method, operation, all))
    }
  }
  document.getElementById('find').addEventListener('input', event => {
    const word = event.target.value.toLowerCase()
    for (const box of document.querySelectorAll('section')) box.hidden = !box.dataset.text.includes(word)
  })
})
