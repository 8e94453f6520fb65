// Texts of the demo's output. They are for readers who know nothing about Holdfast and spend half a minute on the
// output.
import type { Counts } from './counts.js'
import type { Verdict } from './proof.js'
import type { Loss } from './takeovers.js'

/** Explains the company, and the damage that failures could cause. */
export function introduction(instances: number, isWithout: boolean): string {
  const sentences = [
    `Holdfast is a library that lets Node.js processes share work through their PostgreSQL database. Here, ${instances} processes run a small company: they book payments, send invoices and emails, write a report each "night" (10 s) and assign numbers to new buildings.`,
    'Every few seconds, one process is killed or frozen in the middle of its work, and a new one replaces a killed one. Even so, no payment may be booked twice and no job may be lost.',
    ...(isWithout
      ? [
          'In parallel, the same company runs without Holdfast: timers in each process, jobs in memory, and a check before each insert. Each fault hits both.',
        ]
      : []),
  ]
  return sentences.join(' ')
}

/** Work of a process, by kind: one piece, and `#` pieces. */
const nouns: Readonly<Record<string, readonly [one: string, several: string]>> = {
  index: ['the search index', 'the search index'],
  books: ['the account books', 'the account books'],
  rates: ['the exchange rates', 'the exchange rates'],
  report: ['the nightly report', '# nightly reports'],
  payment: ['1 payment', '# payments'],
  job: ['1 job', '# jobs'],
  export: ['1 export', '# exports'],
  city: ['the buildings of 1 city', 'the buildings of # cities'],
}
const jobKinds = ['invoice', 'account', 'contract', 'mail', 'call']

/** Describes what a process was doing, such as `busy with the search index, 2 jobs and 1 payment`. */
export function describeWorks(works: readonly string[]): string {
  if (works.length === 0) return 'idle'
  const counts = new Map<string, number>()
  for (const work of works) {
    const [kind] = work.split(' ') as [string]
    const noun = jobKinds.includes(kind) ? 'job' : kind
    counts.set(noun, (counts.get(noun) ?? 0) + 1)
  }
  const parts = Object.entries(nouns).flatMap(([noun, [one, several]]) => {
    const count = counts.get(noun) ?? 0
    if (count === 0) return []
    return count === 1 ? [one] : [several.replace('#', String(count))]
  })
  return `busy with ${formatList(parts)}`
}

/**
 * Describes the end of a loss on one line: the lost work, the processes that continued it, and the time that this took.
 */
export function describeLoss({ works, takeovers, left }: Loss): string {
  const did = describeWorks(works)
  if (works.length === 0) return did
  if (takeovers.length === 0)
    return `${did} → ${left.size === 0 ? 'it had just finished' : 'no process has continued yet'}`
  const names = formatList([...new Set(takeovers.map(({ by }) => by))])
  const after = formatSeconds(Math.max(...takeovers.map(({ afterMs }) => afterMs)))
  const rest = left.size > 0 ? `, ${count(left.size, 'piece')} of work not yet` : ''
  return `${did} → ${names} took over within ${after}${rest}`
}

export function describeProof(proof: readonly Verdict[], violations: number): string {
  const checks = proof.reduce((sum, { checked }) => sum + checked, 0).toLocaleString('en')
  const result = violations === 0 ? 'nothing lost, nothing done twice' : `${violations} violations`
  return `${checks} checks of the company's data: ${result}`
}

/** Describes what the company with Holdfast has done, and the harm that was avoided. */
export function describeWork(counts: Counts, lateResults: number): string {
  const { payments, duplicatesAnswered, invoices, emails, reports } = counts
  return [
    `${payments} payments booked once each (${count(duplicatesAnswered, 'webhook')} came twice)`,
    count(invoices, 'invoice'),
    count(emails, 'email'),
    count(reports, 'nightly report'),
    ...(lateResults > 0 ? [`${count(lateResults, 'outdated result')} refused`] : []),
  ].join(', ')
}

/** Describes the harm in the company without Holdfast. */
export function describeHarm(counts: Counts): string {
  const { paymentsTwice, invoicesLost, emailsLost, reportsTwice, updatesLost } = counts
  const parts = [
    paymentsTwice > 0 && `${count(paymentsTwice, 'payment')} booked twice`,
    invoicesLost > 0 && `${count(invoicesLost, 'invoice')} lost`,
    emailsLost > 0 && `${count(emailsLost, 'email')} never sent`,
    reportsTwice > 0 && `${count(reportsTwice, 'report')} too many`,
    updatesLost > 0 && `${count(updatesLost, 'account entry', 'account entries')} overwritten`,
  ].filter((part) => part !== false)
  return parts.length === 0 ? 'no harm yet' : parts.join(', ')
}

/** Shows how to get from the demo to a first program. */
export const nextSteps = `Next: npm install holdfast pg

  import { Holdfast } from 'holdfast'

  const holdfast = await Holdfast.open({ url: process.env.DATABASE_URL })

  // Runs in one process at a time. If that process dies, the lock is free.
  await holdfast.locks.with('invoice:42', () => sendInvoice(42))

  // Runs each night in one process. If that process dies, another one runs it.
  holdfast.schedules.add('report', { cron: '0 3 * * *' }, () => writeReport())`

export function count(number: number, thing: string, things = `${thing}s`): string {
  return `${number.toLocaleString('en')} ${number === 1 ? thing : things}`
}

/** Joins parts, such as `a, b and c`. */
export function formatList(parts: readonly string[]): string {
  return parts.length < 2 ? parts.join('') : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`
}

export function formatSeconds(ms: number): string {
  return ms < 10 ? '0.01 s' : `${(ms / 1_000).toFixed(ms < 1_000 ? 2 : 1)} s`
}
