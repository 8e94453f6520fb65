import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { Me } from './wire.js'

export const MeContext = createContext<Me | undefined>(undefined)

/** Returns the current visitor, the visitor's rights, and information about the database. */
export function useMe(): Me {
  const me = useContext(MeContext)
  if (!me) throw new Error('useMe() was called outside of <App>')
  return me
}
