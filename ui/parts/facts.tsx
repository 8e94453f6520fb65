import type { ComponentChildren } from 'preact'
import { Fragment } from 'preact'

export type Fact = readonly [label: string, value: ComponentChildren]

/** List of labels and values. Omits empty entries. */
export function Facts({ facts }: { readonly facts: readonly (Fact | false | null | undefined)[] }) {
  return (
    <dl class="facts">
      {facts.map(
        (fact) =>
          fact && (
            <Fragment key={fact[0]}>
              <dt>{fact[0]}</dt>
              <dd>{fact[1]}</dd>
            </Fragment>
          ),
      )}
    </dl>
  )
}
