import { readParams } from '../acts/index.js'
import { suggest, UsageError } from '../base/index.js'
import type { Question } from './hub.js'
import type { AnyView } from './view.js'
import { views } from './views/index.js'

const mostParams = 16

/** The question behind `NAME` and its parameters. */
export function questionOf(name: string, search: URLSearchParams): Question {
  if (!Object.hasOwn(views, name)) {
    const meant = suggest(name, Object.keys(views))
    throw new UsageError(`There is no view ${JSON.stringify(name.slice(0, 80))}`, meant && `Did you mean ${meant}?`)
  }
  const view = views[name as keyof typeof views] as AnyView
  const given = [...search].filter(([, value]) => value !== '')
  if (given.length > mostParams) throw new UsageError(`Expected at most ${mostParams} parameters, got ${given.length}`)
  const names = given.map(([param]) => param)
  const twice = names.find((param, at) => names.indexOf(param) !== at)
  if (twice !== undefined) throw new UsageError(`Expected ${JSON.stringify(twice.slice(0, 80))} once, got it twice`)
  const params = readParams(`the view ${name}`, Object.fromEntries(given), view)
  const written = Object.entries(params).sort(([one], [other]) => (one < other ? -1 : 1))
  return { id: `${name} ${JSON.stringify(written)}`, view, params }
}

/** The same, written as `NAME?params`. */
export function questionAs(text: string): Question {
  const [name = '', ...rest] = text.split('?')
  return questionOf(name, new URLSearchParams(rest.join('?')))
}
