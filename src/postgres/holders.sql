-- Statements that find the holder of a name after a call has failed because of this holder.

-- name: lock_holders
-- Uses the indexes lease_pkey, instance_name_pkey and hold_pkey.
select key, instance, name, host, os_pid, application, pid, held_ms
from holdfast.lock_holders($1::bigint[])

-- name: permit_holders
-- Uses the indexes permit_pkey and instance_name_pkey.
select key, instance, name, host, os_pid, application, pid, held_ms
from holdfast.permit_holders($1::bigint[])
