import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { Me } from './wire.js'

export const MeContext = createContext<Me | undefined>(undefined)

/** The visitor, their rights, and the database. */
export function useMe(): Me {
  const me = useContext(MeContext)
  if (!me) throw new Error('Expected useMe() inside of <App>')
  return me
}
