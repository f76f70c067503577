// The routes of the server, made of its description.
'use strict'

const make = (tag, text) => Object.assign(document.createElement(tag), { textContent: text ?? '' })
const name = schema => (schema?.$ref ?? '').split('/').pop()

const indented = text => text.replaceAll('\n', '\n  ')

// A schema as a type. A name below the first one is told by name, so every schema ends.
function schemaText(schema, all, isInner = false) {
  if (schema === undefined || schema === true) return 'anything'
  if (schema === false) return 'nothing'
  if (schema.$ref) return !isInner && all[name(schema)] ? schemaText(all[name(schema)], all, true) : name(schema)
  const inner = one => schemaText(one, all, true)
  const parts = []
  for (const [word, sign] of [['anyOf', ' | '], ['oneOf', ' | '], ['allOf', ' & ']]) {
    if (schema[word]) parts.push(schema[word].map(inner).join(sign))
  }
  if (schema.enum) parts.push(schema.enum.map(value => JSON.stringify(value)).join(' | '))
  if ('const' in schema) parts.push(JSON.stringify(schema.const))
  const members = Object.entries(schema.properties ?? {}).map(([key, one]) => {
    const optional = schema.required?.includes(key) ? '' : '?'
    const about = one.description ? `   // ${one.description.replaceAll('\n', ' ')}` : ''
    return `  ${key}${optional}: ${indented(inner(one))}${about}`
  })
  const more = schema.additionalProperties
  if (more && typeof more === 'object') members.push(`  [name]: ${indented(inner(more))}`)
  if (members.length) parts.push(`{\n${members.join('\n')}\n}`)
  if (schema.items !== undefined) parts.push(`list of ${inner(schema.items)}`)
  const kinds = [schema.type ?? []].flat()
  if (parts.length === 0) {
    const limits = [['minimum', 'at least'], ['maximum', 'at most'], ['pattern', 'like']]
      .filter(([word]) => word in schema)
      .map(([word, say]) => `${say} ${schema[word]}`)
    return [kinds.join(' | ') || 'anything', ...limits].join(', ')
  }
  return parts.join(' & ') + (kinds.includes('null') ? ' | null' : '')
}

function section(path, method, operation, all) {
  const box = make('section')
  box.append(make('h2', `${method.toUpperCase()} ${path}`), make('p', operation.summary))
  if (operation.security?.length === 0) box.append(make('p', 'Needs no token.'))
  if (operation.parameters?.length) {
    const table = make('table')
    for (const one of operation.parameters) {
      const row = make('tr')
      const kind = schemaText(one.schema, all)
      row.append(make('td', one.name), make('td', one.in), make('td', kind), make('td', one.description ?? ''))
      table.append(row)
    }
    box.append(table)
  }
  const body = operation.requestBody?.content?.['application/json']?.schema
  if (body) box.append(make('h3', 'Body'), make('pre', schemaText(body, all)))
  const refusals = []
  for (const [status, response] of Object.entries(operation.responses)) {
    if (response.$ref) {
      refusals.push(status)
      continue
    }
    const contents = Object.entries(response.content ?? {})
    if (contents.length === 0) box.append(make('h3', `${status}: ${response.description}`))
    for (const [media, told] of contents) {
      box.append(make('h3', `${status}: ${media}`))
      if (told.schema) box.append(make('pre', schemaText(told.schema, all)))
    }
  }
  if (refusals.length) box.append(make('h3', `${refusals.join(', ')}: application/problem+json`), make('p', 'Problem'))
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
  for (const [own, schema] of Object.entries(all)) {
    const box = make('section')
    box.append(make('h2', own), make('p', schema.description), make('pre', schemaText(schema, all)))
    box.dataset.text = box.textContent.toLowerCase()
    box.dataset.schema = own
    document.getElementById('schemas').append(box)
  }
  document.getElementById('find').addEventListener('input', event => {
    const word = event.target.value.toLowerCase()
    for (const box of document.querySelectorAll('section')) box.hidden = !box.dataset.text.includes(word)
  })
})
