/**
 * Small JSON object that is stored with a job, in addition to its input, such as `{ tags: ['billing'], requestId: 'r-1' }`.
 * At most 2,000 bytes of JSON.
 */
export type JobMeta = Readonly<Record<string, unknown>>
