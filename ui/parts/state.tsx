import './state.css'
import type { ComponentChildren } from 'preact'

export type Tone = 'good' | 'busy' | 'wait' | 'warn' | 'bad' | 'quiet'

/** Words that users see for states, where the database has another word. */
const words: Readonly<Record<string, string>> = {
  buried: 'failed',
  gone: 'lost',
  'min-hold': 'cooling down',
  'in-flight': 'running',
}

export function wordOf(state: string): string {
  return words[state] ?? state
}

/** Tone of each state. All other states have the tone `quiet`. */
const tones: Readonly<Record<string, Tone>> = {
  alive: 'good',
  open: 'good',
  held: 'good',
  done: 'good',
  holds: 'good',
  exclusive: 'good',
  shared: 'good',
  running: 'busy',
  'in-flight': 'busy',
  ready: 'busy',
  'drain-requested': 'warn',
  draining: 'warn',
  late: 'warn',
  full: 'warn',
  paused: 'warn',
  waiting: 'wait',
  wanted: 'wait',
  failed: 'bad',
  crashed: 'bad',
  buried: 'bad',
  broken: 'bad',
  gone: 'bad',
  lost: 'bad',
  expired: 'warn',
}

/** Shape of each tone. The shapes are needed because colour alone must not carry information. */
const shapes: Readonly<Record<Tone, string>> = {
  good: 'M6 1.500a4.500 4.500 0 1 1 0 9 4.500 4.500 0 0 1 0-9',
  busy: 'M3 1.800l7 4.200-7 4.200z',
  wait: 'M2 2h8L6 6l4 4H2l4-4z',
  warn: 'M6 1l5.200 9.500H.8z',
  bad: 'M1.500 3.200l1.700-1.700L6 4.300l2.800-2.800 1.700 1.700L7.700 6l2.800 2.800-1.700 1.700L6 7.700l-2.800 2.800-1.700-1.700L4.300 6z',
  quiet: 'M2 4.900h8v2.200H2z',
}

export function toneOf(word: string): Tone {
  return tones[word] ?? 'quiet'
}

export function Shape({ tone }: { readonly tone: Tone }) {
  return (
    <svg class={`shape ${tone}`} viewBox="0 0 12 12" width="10" height="10" aria-hidden="true">
      <path d={shapes[tone]} />
    </svg>
  )
}

/** Shows a state as a word, with the shape and colour of the state's tone. */
export function State({ word, tone = toneOf(word) }: { readonly word: string; readonly tone?: Tone }) {
  return (
    <span class={`state inline ${tone}`}>
      <Shape tone={tone} />
      {wordOf(word)}
    </span>
  )
}

/** Important message, shown with the shape and colour of its tone. */
export function Notice({ tone, children }: { readonly tone: Tone; readonly children: ComponentChildren }) {
  return (
    <div class={`notice ${tone}`}>
      <Shape tone={tone} />
      <div>{children}</div>
    </div>
  )
}
