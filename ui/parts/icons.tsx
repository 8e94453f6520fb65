// Icons of the dashboard, 16 by 16.
import type { PageId } from '../routes.js'

const paths = {
  databases: 'M2.500 4c0-3 11-3 11 0s-11 3-11 0v8c0 3 11 3 11 0V4M2.500 8c0 3 11 3 11 0',
  now: 'M1.500 8.500h3l2-5 3 9 2-4h3',
  locks: 'M4.500 7V5a3.500 3.500 0 0 1 7 0v2M3.500 7h9v6.500h-9zM8 9.800v1.200',
  schedules: 'M8 1.800a6.200 6.200 0 1 1 0 12.400A6.200 6.200 0 0 1 8 1.800M8 4.500V8l2.500 1.800',
  jobs: 'M2 3.500h12M2 8h8.500M2 12.500h5.500M11.500 11.500l1.500 1.500 2-2.800',
  deliveries: 'M1.800 3.500h12.400v9H1.800zM2 4l6 4.800L14 4',
  limits: 'M2.200 12.500a6.500 6.500 0 1 1 11.600 0M8 9.500l2.800-3.600M8 9.500h.010',
  instances: 'M2 2.500h12v4.300H2zM2 9.200h12v4.300H2zM4.500 4.650h.010M4.500 11.350h.010',
  search: 'M7 2.200a4.800 4.800 0 1 1 0 9.600 4.800 4.800 0 0 1 0-9.600M10.600 10.600l3.400 3.400',
  close: 'M3.500 3.500l9 9M12.500 3.500l-9 9',
  copy: 'M5.500 5.500h8v8h-8zM10.500 5.500v-3h-8v8h3',
  check: 'M3 8.500l3.200 3.200L13 4.800',
  help: 'M5.600 6a2.400 2.400 0 1 1 3.600 2.100c-.8.500-1.200.900-1.200 1.900M8 12.800h.010',
  light:
    'M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6M8 1v1.500M8 13.500V15M1 8h1.500M13.500 8H15M3 3l1.100 1.100M11.900 11.900L13 13M3 13l1.100-1.100M11.900 4.100L13 3',
  dark: 'M13.500 9.800A6 6 0 0 1 6.200 2.500a6 6 0 1 0 7.300 7.300',
  system: 'M1.800 3h12.400v8H1.800zM5.500 13.500h5M8 11v2.500',
  warn: 'M8 2.200l6.300 11.300H1.700zM8 6.500v3.200M8 11.600h.010',
  table: 'M2 3h12v10H2zM2 6.500h12M2 9.800h12M6.500 6.500V13',
} satisfies Record<PageId | string, string>

type IconName = keyof typeof paths

export function Icon({ name, size = 16 }: { readonly name: IconName; readonly size?: number }) {
  return (
    <svg
      class="icon"
      viewBox="0 0 16 16"
      width={size}
      height={size}
      fill="none"
      stroke="currentColor"
      stroke-width="1.4"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      <path d={paths[name]} />
    </svg>
  )
}
