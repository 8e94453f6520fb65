export type Direction = 'to-server' | 'to-client'

/** See network.js. */
export class Network {
  static before(url: string): Promise<Network>
  through(url: string): string
  cut(directions: Direction[], forgets: boolean): void
  heal(): void
  readonly isCut: boolean
  delay(ms: number): void
  loseAnAnswer(): void
  close(): Promise<void>
}
