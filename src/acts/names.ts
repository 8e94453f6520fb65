import { didYouMean, formatDuration } from '../base/index.js'
import { instanceDetails, nameLabel, type ObservedLock, type Observer, participantLabel } from '../observe/index.js'
import { act, formatCount, formatList, inapplicable, joinSentences, otherNamespaceText } from './act.js'
import type { ParsedParams } from './params.js'

const needs = { key: 'key' } as const
/**
 * `name` is the name that the operator typed, in `namespace`. Messages show it if the key has no registered name, and
 * suggest a similar name of that namespace.
 */
const params = { name: 'text', namespace: 'text' } as const

const loss = 'Work that ignores the loss may continue to run.'

export const names = {
  'release-name': act({
    needs,
    params,
    async preview({ observer }, of) {
      const { name, ours, refusal } = await holdersOf(observer, of)
      const subject = `lock ${name}`
      if (ours.length === 0) return inapplicable(subject, refusal)
      const text = `Asks ${labelsOf(ours)} to release the lock. The holder decides when to stop its work. No work is lost.`
      return { subject, text, applies: true, dangerous: false }
    },
    async run({ observer, operator }, of) {
      const { name, ours, refusal } = await holdersOf(observer, of)
      const instances = new Set(ours.map(({ instance }) => instance!))
      if (instances.size > 0) await operator.requestRelease(of.key, [...instances])
      const text = joinSentences(ours.length > 0 && `Asked ${labelsOf(ours)} to release "${name}".`, refusal)
      return { done: ours.length > 0, text, result: { asked: ours } }
    },
  }),

  'expire-lease': act({
    needs,
    params,
    consent: { doing: 'expiring a lease', question: 'Expire this lease?' },
    async preview({ observer }, of) {
      const { name, lease } = await leaseOf(observer, of)
      const subject = `lease ${name}`
      if (!lease) return inapplicable(subject, await notLeased(observer, name, of))
      const { held, fence, expiresInMs } = lease
      const applies = { subject, applies: true, dangerous: true }
      if (!held) {
        const left = formatDuration(expiresInMs)
        const text = `Ends the minimum hold on "${name}" now instead of in ${left}. The name becomes free immediately. Work that was blocked by the minimum hold can run again.`
        return { ...applies, text }
      }
      const holder = participantLabel(lease)
      const text = `Revokes the lease on "${name}" from ${holder}. The name becomes free immediately for the next process that requests it. The holder is notified when it next renews the lease, or earlier. Guarded writes with its fence ${fence} are rejected from now on. ${loss}`
      return { ...applies, text, facts: [['Holder', instanceDetails(lease)]] }
    },
    async run({ observer, operator }, of) {
      const { name, lease } = await leaseOf(observer, of)
      const done = lease !== undefined && (await operator.expireLease(of.key))
      const text = done ? `Expired the lease on "${name}".` : await notLeased(observer, name, of)
      return { done, text, result: { expired: done ? lease : null } }
    },
  }),

  'break-lock': act({
    needs,
    params,
    consent: { doing: 'breaking a lock', question: 'End every session that holds this lock?' },
    async preview({ observer }, of) {
      const { name, holders, ours } = await holdersOf(observer, of)
      const subject = `lock ${name}`
      if (holders.length === 0) return inapplicable(subject, await nothingToBreak(observer, name, of))
      const all = (await observer.locks()).filter(({ granted }) => granted)
      const sessions = holders.length === 1 ? `session ${holders[0]!.pid}` : formatCount(holders.length, 'session')
      const text = joinSentences(
        `Ends ${sessions}. Everything held by ${holders.length === 1 ? 'this session' : 'these sessions'} is lost immediately and passes to the next waiters.`,
        ours.length > 0 && 'Affected instances reconnect. Other instances take over their jobs and runs.',
        loss,
        'To ask the holder to stop instead, request the release of the lock.',
      )
      const facts = holders.map((holder) => [participantLabel(holder), sessionOf(holder, all)] as const)
      return { subject, text, applies: true, dangerous: true, facts }
    },
    async run({ observer, operator }, of) {
      const { name, holders } = await holdersOf(observer, of)
      const ended: ObservedLock[] = []
      for (const holder of holders) if (await operator.endSession(holder.pid!, of.key)) ended.push(holder)
      const pids = ended.map(({ pid }) => pid).join(', ')
      const text =
        ended.length > 0
          ? `Ended session${ended.length > 1 ? 's' : ''} ${pids}.`
          : await nothingToBreak(observer, name, of)
      return { done: ended.length > 0, text, result: { ended } }
    },
  }),
}

type NameParams = ParsedParams<typeof needs, typeof params>

/**
 * Finds the sessions that hold the name as a lock. `ours` contains the sessions of Holdfast instances. `refusal`
 * explains why the other sessions cannot be asked to release the lock.
 */
async function holdersOf(observer: Observer, of: NameParams) {
  const { key, name: fallbackName } = of
  const locks = await observer.locks({ key })
  const holders = locks.filter(({ granted }) => granted)
  const name = locks[0]?.label ?? fallbackName ?? nameLabel({ label: null, key })
  const ours = holders.filter(({ instance }) => instance !== null)
  const others = holders.filter(({ instance }) => instance === null)
  const refusal =
    holders.length === 0
      ? joinSentences(`"${name}" is free: it has no holder.`, await otherName(observer, of))
      : others.length > 0
        ? `Holdfast cannot ask ${labelsOf(others)} to release "${name}", because the lock was acquired without Holdfast. To end the session, break the lock.`
        : ''
  return { name, holders, ours, refusal }
}

async function leaseOf(observer: Observer, { key, name }: NameParams) {
  const [lease] = await observer.leases({ key })
  return { lease, name: lease?.label ?? name ?? nameLabel({ label: null, key }) }
}

async function notLeased(observer: Observer, name: string, of: NameParams): Promise<string> {
  return joinSentences(`"${name}" is not leased: there is nothing to expire.`, await otherName(observer, of))
}

async function nothingToBreak(observer: Observer, name: string, of: NameParams): Promise<string> {
  return joinSentences(`"${name}" is free: there is nothing to break.`, await otherName(observer, of))
}

/** Suggests the same name in another namespace, or a held name that is similar to the name that the operator typed. */
async function otherName(observer: Observer, { name, namespace }: NameParams): Promise<string | undefined> {
  if (name === undefined || namespace === undefined) return undefined
  const { locks, leases } = await observer.names({ namespace })
  const held = [...locks, ...leases].flatMap(({ label }) => (label === null || label === name ? [] : [label]))
  return (await otherNamespaceNote(observer, name)) ?? didYouMean(name, held)
}

/** Returns a hint if the name is held or leased in another namespace. For a name that is free in its own namespace. */
export async function otherNamespaceNote(observer: Observer, name: string): Promise<string | undefined> {
  const { locks, leases } = await observer.names({})
  const used = [...locks, ...leases].filter(({ label }) => label === name)
  return otherNamespaceText('lock or lease', used)
}

function labelsOf(holders: readonly ObservedLock[]): string {
  return holders.map((holder) => participantLabel(holder, holder.pid)).join(' and ')
}

/** Describes a session, such as `session 4711 of instance …, which also holds …`. */
function sessionOf({ pid, key, instance }: ObservedLock, all: readonly ObservedLock[]): string {
  const others = all.filter((lock) => lock.pid === pid && lock.key !== key).map(nameLabel)
  const besides = others.length === 0 ? 'holds nothing else' : `also holds ${formatList(others)}`
  return `session ${pid}${instance === null ? '' : ` of instance ${instance}`}, which ${besides}`
}
