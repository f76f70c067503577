export * from './api.ts'
export * from './follow.ts'
export { type Connection, type Frame, GlasshouseError, type Lines, type More, type Server } from './runtime.ts'
