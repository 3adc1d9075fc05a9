"""The studio: an HTTP service, and a page in which people teach a classifier class by class.

::

    request ─▶ security, limits ─▶ routes ─▶ Studio ─▶ LiveModel ─▶ journal, model file
                                     │          └▶ batching ─▶ embedding ─▶ predictor
                                     └▶ jobs

:mod:`~gddsg.serve.studio` holds all that the service does; what is in :mod:`~gddsg.serve.routes` only translates. A
request takes the model of the moment, a change publishes the next one.
"""
