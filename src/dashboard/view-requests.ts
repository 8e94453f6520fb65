import { readParams } from '../acts/index.js'
import { suggest, UsageError } from '../base/index.js'
import type { ViewRequest } from './hub.js'
import type { AnyView } from './view.js'
import { views } from './views/index.js'

const maxParams = 16

/** Parses a view's name and parameters. */
export function viewRequest(name: string, search: URLSearchParams): ViewRequest {
  if (!Object.hasOwn(views, name)) {
    const meant = suggest(name, Object.keys(views))
    throw new UsageError(`There is no view ${JSON.stringify(name.slice(0, 80))}`, meant && `Did you mean ${meant}?`)
  }
  const view = views[name as keyof typeof views] as AnyView
  const given = [...search].filter(([, value]) => value !== '')
  if (given.length > maxParams) throw new UsageError(`Expected at most ${maxParams} parameters, got ${given.length}`)
  const names = given.map(([param]) => param)
  const twice = names.find((param, at) => names.indexOf(param) !== at)
  if (twice !== undefined)
    throw new UsageError(`Expected the parameter ${JSON.stringify(twice.slice(0, 80))} only once, got it twice`)
  const params = readParams(`the view ${name}`, Object.fromEntries(given), view)
  const sorted = Object.entries(params).sort(([one], [other]) => (one < other ? -1 : 1))
  return { id: `${name} ${JSON.stringify(sorted)}`, view, params }
}

/** Parses `NAME?params`. */
export function parseViewRequest(text: string): ViewRequest {
  const [name = '', ...rest] = text.split('?')
  return viewRequest(name, new URLSearchParams(rest.join('?')))
}
