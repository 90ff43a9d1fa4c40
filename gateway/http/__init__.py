"""The HTTP side: health now, the control plane and web page later."""
