from .child import Child as Child
from .child import ChildHungError as ChildHungError
from .child import ChildLostError as ChildLostError
from .child import ChildNotStartedError as ChildNotStartedError
from .child import RemoteError as RemoteError
from .serving import Parent as Parent
from .serving import leave_out_telemetry as leave_out_telemetry
from .serving import serve as serve
