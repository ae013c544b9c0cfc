"""Contains all the data models used in inputs/outputs"""

from .audio_codec import AudioCodec
from .audio_input import AudioInput
from .audio_profile import AudioProfile
from .azure_destination import AzureDestination
from .broadcast import Broadcast
from .broadcast_ended_event import BroadcastEndedEvent
from .broadcast_failed_event import BroadcastFailedEvent
from .broadcast_page import BroadcastPage
from .broadcast_started_event import BroadcastStartedEvent
from .broadcast_updated_event import BroadcastUpdatedEvent
from .change_role import ChangeRole
from .create_code import CreateCode
from .create_ingress import CreateIngress
from .create_recording_destination import CreateRecordingDestination
from .create_room import CreateRoom
from .create_rtmp_destination import CreateRtmpDestination
from .create_template import CreateTemplate
from .create_template_roles import CreateTemplateRoles
from .create_token import CreateToken
from .create_webhook_endpoint import CreateWebhookEndpoint
from .data_kind import DataKind
from .data_sent import DataSent
from .delivery_status import DeliveryStatus
from .destination import Destination
from .destination_kind import DestinationKind
from .destination_list import DestinationList
from .egress_head import EgressHead
from .egress_status import EgressStatus
from .egress_tail import EgressTail
from .event_type import EventType
from .exchange_code import ExchangeCode
from .gcp_destination import GcpDestination
from .ingress import Ingress
from .ingress_created import IngressCreated
from .ingress_ended_event import IngressEndedEvent
from .ingress_page import IngressPage
from .ingress_started_event import IngressStartedEvent
from .ingress_status import IngressStatus
from .input_type import InputType
from .layout import Layout
from .mute_track import MuteTrack
from .muted_track import MutedTrack
from .new_azure_destination import NewAzureDestination
from .new_gcp_destination import NewGcpDestination
from .new_s3_destination import NewS3Destination
from .other_destination_config import OtherDestinationConfig
from .participant import Participant
from .participant_attributes import ParticipantAttributes
from .participant_connection_aborted_event import ParticipantConnectionAbortedEvent
from .participant_joined_event import ParticipantJoinedEvent
from .participant_kind import ParticipantKind
from .participant_left_event import ParticipantLeftEvent
from .participant_page import ParticipantPage
from .participant_publish_limit_cleared_event import ParticipantPublishLimitClearedEvent
from .participant_publish_limit_exceeded_event import (
    ParticipantPublishLimitExceededEvent,
)
from .participant_role_changed_event import ParticipantRoleChangedEvent
from .participant_state import ParticipantState
from .permissions import Permissions
from .plan_features import PlanFeatures
from .plan_limits import PlanLimits
from .plan_status import PlanStatus
from .publish_kind import PublishKind
from .quota_state import QuotaState
from .recording import Recording
from .recording_ended_event import RecordingEndedEvent
from .recording_failed_event import RecordingFailedEvent
from .recording_page import RecordingPage
from .recording_started_event import RecordingStartedEvent
from .recording_type import RecordingType
from .recording_updated_event import RecordingUpdatedEvent
from .region import Region
from .role import Role
from .role_attributes import RoleAttributes
from .role_change import RoleChange
from .role_change_page import RoleChangePage
from .role_change_result import RoleChangeResult
from .role_input import RoleInput
from .role_permissions import RolePermissions
from .role_publish import RolePublish
from .role_publish_input import RolePublishInput
from .role_subscribe import RoleSubscribe
from .role_subscribe_input import RoleSubscribeInput
from .room import Room
from .room_code import RoomCode
from .room_code_page import RoomCodePage
from .room_finished_event import RoomFinishedEvent
from .room_page import RoomPage
from .room_started_event import RoomStartedEvent
from .room_status import RoomStatus
from .rtmp_destination_config import RtmpDestinationConfig
from .s3_destination import S3Destination
from .send_data import SendData
from .session import Session
from .session_detail import SessionDetail
from .session_page import SessionPage
from .session_track import SessionTrack
from .shown_rtmp_destination_config import ShownRtmpDestinationConfig
from .start_broadcast import StartBroadcast
from .start_recording import StartRecording
from .template import Template
from .template_page import TemplatePage
from .template_roles import TemplateRoles
from .template_settings import TemplateSettings
from .template_settings_detail import TemplateSettingsDetail
from .template_settings_input import TemplateSettingsInput
from .token import Token
from .track import Track
from .track_kind import TrackKind
from .track_published_event import TrackPublishedEvent
from .track_source import TrackSource
from .track_unpublished_event import TrackUnpublishedEvent
from .update_destination import UpdateDestination
from .update_template import UpdateTemplate
from .update_template_roles import UpdateTemplateRoles
from .update_template_settings import UpdateTemplateSettings
from .usage import Usage
from .usage_day import UsageDay
from .video_codec import VideoCodec
from .video_input import VideoInput
from .video_profile import VideoProfile
from .webhook_delivery import WebhookDelivery
from .webhook_delivery_page import WebhookDeliveryPage
from .webhook_delivery_payload import WebhookDeliveryPayload
from .webhook_endpoint import WebhookEndpoint
from .webhook_endpoint_created import WebhookEndpointCreated
from .webhook_endpoint_page import WebhookEndpointPage
from .webhook_test_event import WebhookTestEvent

__all__ = (
    "AudioCodec",
    "AudioInput",
    "AudioProfile",
    "AzureDestination",
    "Broadcast",
    "BroadcastEndedEvent",
    "BroadcastFailedEvent",
    "BroadcastPage",
    "BroadcastStartedEvent",
    "BroadcastUpdatedEvent",
    "ChangeRole",
    "CreateCode",
    "CreateIngress",
    "CreateRecordingDestination",
    "CreateRoom",
    "CreateRtmpDestination",
    "CreateTemplate",
    "CreateTemplateRoles",
    "CreateToken",
    "CreateWebhookEndpoint",
    "DataKind",
    "DataSent",
    "DeliveryStatus",
    "Destination",
    "DestinationKind",
    "DestinationList",
    "EgressHead",
    "EgressStatus",
    "EgressTail",
    "EventType",
    "ExchangeCode",
    "GcpDestination",
    "Ingress",
    "IngressCreated",
    "IngressEndedEvent",
    "IngressPage",
    "IngressStartedEvent",
    "IngressStatus",
    "InputType",
    "Layout",
    "MutedTrack",
    "MuteTrack",
    "NewAzureDestination",
    "NewGcpDestination",
    "NewS3Destination",
    "OtherDestinationConfig",
    "Participant",
    "ParticipantAttributes",
    "ParticipantConnectionAbortedEvent",
    "ParticipantJoinedEvent",
    "ParticipantKind",
    "ParticipantLeftEvent",
    "ParticipantPage",
    "ParticipantPublishLimitClearedEvent",
    "ParticipantPublishLimitExceededEvent",
    "ParticipantRoleChangedEvent",
    "ParticipantState",
    "Permissions",
    "PlanFeatures",
    "PlanLimits",
    "PlanStatus",
    "PublishKind",
    "QuotaState",
    "Recording",
    "RecordingEndedEvent",
    "RecordingFailedEvent",
    "RecordingPage",
    "RecordingStartedEvent",
    "RecordingType",
    "RecordingUpdatedEvent",
    "Region",
    "Role",
    "RoleAttributes",
    "RoleChange",
    "RoleChangePage",
    "RoleChangeResult",
    "RoleInput",
    "RolePermissions",
    "RolePublish",
    "RolePublishInput",
    "RoleSubscribe",
    "RoleSubscribeInput",
    "Room",
    "RoomCode",
    "RoomCodePage",
    "RoomFinishedEvent",
    "RoomPage",
    "RoomStartedEvent",
    "RoomStatus",
    "RtmpDestinationConfig",
    "S3Destination",
    "SendData",
    "Session",
    "SessionDetail",
    "SessionPage",
    "SessionTrack",
    "ShownRtmpDestinationConfig",
    "StartBroadcast",
    "StartRecording",
    "Template",
    "TemplatePage",
    "TemplateRoles",
    "TemplateSettings",
    "TemplateSettingsDetail",
    "TemplateSettingsInput",
    "Token",
    "Track",
    "TrackKind",
    "TrackPublishedEvent",
    "TrackSource",
    "TrackUnpublishedEvent",
    "UpdateDestination",
    "UpdateTemplate",
    "UpdateTemplateRoles",
    "UpdateTemplateSettings",
    "Usage",
    "UsageDay",
    "VideoCodec",
    "VideoInput",
    "VideoProfile",
    "WebhookDelivery",
    "WebhookDeliveryPage",
    "WebhookDeliveryPayload",
    "WebhookEndpoint",
    "WebhookEndpointCreated",
    "WebhookEndpointPage",
    "WebhookTestEvent",
)
