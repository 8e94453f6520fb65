/** What exactly will happen, from what the database knows now. */
export interface Consequence {
  /** What it happens to, in two or three words: `lock etl`. */
  readonly subject: string
  /** Whole sentences: "Ends session 4711 of worker-3. It also loses lock etl and 3 running jobs, which run again elsewhere." */
  readonly says: string
  /** Whether work is lost or done twice. */
  readonly grave: boolean
  readonly facts?: readonly (readonly [label: string, value: string])[]
}
