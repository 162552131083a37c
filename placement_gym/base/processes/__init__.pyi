from .child import Child as Child
from .child import ChildHungError as ChildHungError
from .child import ChildLostError as ChildLostError
from .child import ChildNotStartedError as ChildNotStartedError
from .child import RemoteError as RemoteError
from .serving import Parent as Parent
from .serving import serve as serve
from .signal_stack import keep_signal_stack as keep_signal_stack
