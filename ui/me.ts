import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { Me } from './wire.js'

export const MeContext = createContext<Me | undefined>(undefined)

/** Who looks at this page, what they may do, and at which database. */
export function useMe(): Me {
  const me = useContext(MeContext)
  if (!me) throw new Error('Expected a page inside of the app')
  return me
}
